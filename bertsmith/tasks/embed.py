"""Texts in, one vector for each out: the mean of BERT's last-layer vectors over its tokens.

The mean over tokens, not the vector of [CLS] or the pooler's: without fine-tuning it is the one
whose distances say most about likeness (Reimers & Gurevych 2019, table 1), and it is what
published sentence encoders of this shape were trained with.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_texts import Text, as_pairs, encode_texts
from bertsmith.model.bert import BertModel, mean_over_sequences
from bertsmith.tasks.inference import LoadedModel, compute_in_order, load_for_inference


class TextEncoder:
    """A model without a head that predicts: called with texts, gives their vectors."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto", precision: str = "auto") -> Self:
        """The encoder in a model folder, whatever heads it has."""
        return cls(load_for_inference(path, head=None, device=device, precision=precision))

    def __call__(self, texts: str | Sequence[Text]) -> NDArray[np.float32]:
        """The vector `[hidden]` of one text, or those of several, `[texts, hidden]`."""
        if isinstance(texts, str):
            vector: NDArray[np.float32] = self([texts])[0]
            return vector
        encoded = encode_texts(self.loaded.tokenizer, as_pairs(texts), self.loaded.max_length)
        with self.loaded.computing():
            return compute_in_order(self.loaded.model, encoded, mean_vectors)


def mean_vectors(model: BertModel, batch: Batch) -> Tensor:
    """The mean over each sequence's tokens, special ones included, `[sequences, hidden]`."""
    return mean_over_sequences(model.encode(batch).float(), batch)

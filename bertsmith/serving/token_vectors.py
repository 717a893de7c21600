"""Token vectors: a vector for each token of a text, special tokens included."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.examples import Example
from bertsmith.model.bert import BertModel
from bertsmith.tasks.inference import compute_tokens_in_order
from bertsmith.tasks.text_vectors import TextVectors


@dataclass(frozen=True)
class TokenVectors(TextVectors):
    """The last hidden states of each text, which is cut to the same length as for text vectors."""

    titles = ("vectors", "text", "second text")  # of the columns of a table of predictions

    def compute_outputs(self, model: BertModel, encoded: EncodedExamples) -> Any:
        """Compute each text's vectors, a list of fp32 `[tokens, hidden]`; `decode` takes them."""
        return compute_tokens_in_order(model, encoded.rows, _hidden_states)

    def decode(
        self, outputs: Any, encoded: EncodedExamples, examples: Sequence[Example]
    ) -> list[Any]:
        """Return each text's vectors, fp32 `[tokens, hidden]`."""
        vectors: list[NDArray[np.float32]] = outputs
        return list(vectors)


def _hidden_states(model: BertModel, batch: Batch) -> Tensor:
    return model.encode(batch).float()

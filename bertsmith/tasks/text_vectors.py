"""Text embeddings: texts in, one vector for each out.

The default pooling is the mean over tokens, not the vector of [CLS] or the pooler's: without
fine-tuning its distances reflect similarity best (Reimers & Gurevych 2019, table 1). The settings
in a folder of sentence-transformers are applied.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_texts import (
    EncodedTexts,
    Text,
    as_pairs,
    check_stored_length,
    encode_texts,
)
from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.model.bert import BertModel
from bertsmith.model.layers import mean_over_sequences
from bertsmith.model.model_folder import read_folder
from bertsmith.tasks.inference import LoadedModel, compute_in_order, load_for_inference
from bertsmith.tasks.sentence_folder import (
    Pooling,
    SentenceFolder,
    check_case,
    find_length_file,
)


class TextEncoder:
    """A model that is called with texts and returns their vectors.

    Args:
        loaded: the model; its heads are not used.
        pooling: `mean` over tokens, `first_token` ([CLS]) or `pooler`; by default the folder's,
            else `mean`. The folder's other settings apply in either case.
        normalize: scale vectors to length 1; also done if the folder says so.

    Raises:
        ConfigError: no such pooling.
        CheckpointError: the model has no pooler, or the folder asks for something unsupported.
    """

    def __init__(
        self, loaded: LoadedModel, *, pooling: str | None = None, normalize: bool = False
    ) -> None:
        wanted = None if pooling is None else check_pooling(loaded, pooling)
        files = loaded.folder.files
        folder = SentenceFolder.read(files, pooling=wanted)
        check_case(files, loaded.tokenizer)
        if folder.max_length is not None:
            place = f"{files.path(find_length_file(files))}: max_seq_length"
            check_stored_length(loaded.tokenizer, folder.max_length, place)
        self.loaded = loaded
        self.pooling = folder.pooling or "mean"
        self.normalize = normalize or folder.normalize
        own_length = loaded.asked_length or folder.max_length or loaded.max_length
        self.max_length = min(loaded.max_length, own_length)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        device: str = "auto",
        precision: str = "auto",
        max_length: int | None = None,
        pooling: str | None = None,
        normalize: bool = False,
    ) -> Self:
        """Load the encoder of a model folder, whatever its heads."""
        loaded = load_for_inference(
            read_folder(path), device=device, precision=precision, max_length=max_length
        )
        return cls(loaded, pooling=pooling, normalize=normalize)

    def __call__(self, texts: str | Sequence[Text]) -> NDArray[np.float32]:
        """Encode one text as `[hidden]`, or several as `[texts, hidden]`."""
        if isinstance(texts, str):
            vector: NDArray[np.float32] = self([texts])[0]
            return vector
        return self.vectors(self.tokenize(texts))

    encode = __call__

    @property
    def size(self) -> int:
        """The length of a vector."""
        return self.loaded.model.config.hidden_size

    def tokenize(self, texts: Sequence[Text]) -> EncodedTexts:
        """Encode texts or pairs as token ids, cut to the maximum length."""
        return encode_texts(self.loaded.tokenizer, as_pairs(texts), self.max_length)

    def vectors(self, texts: EncodedTexts | Sequence[Text]) -> NDArray[np.float32]:
        """Compute vectors in the order of the texts, fp32 `[texts, hidden]`."""
        if not isinstance(texts, EncodedTexts):
            texts = self.tokenize(texts)
        if not len(texts):
            return np.empty((0, self.size), np.float32)
        vectors = compute_in_order(self.loaded.model, texts, COMPUTE[self.pooling])
        if self.normalize:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors


def check_pooling(loaded: LoadedModel, pooling: str) -> Pooling:
    """Check that the model supports `pooling`.

    Raises:
        ConfigError: no such pooling.
        CheckpointError: the model has no pooler.
    """
    if pooling not in get_args(Pooling):
        raise ConfigError(
            f"pooling: found '{pooling}'; allowed are {', '.join(get_args(Pooling))}."
        )
    if pooling == "pooler" and loaded.model.pooler is None:
        raise CheckpointError(f"{loaded.folder.path}: the model has no pooler. Use --pooling mean.")
    return pooling  # type: ignore[return-value]


def mean_vectors(model: BertModel, batch: Batch) -> Tensor:
    """Average over each sequence's tokens, special ones included, to `[sequences, hidden]`."""
    return mean_over_sequences(model.encode(batch).float(), batch)


def first_token_vectors(model: BertModel, batch: Batch) -> Tensor:
    """Return the vectors of [CLS], `[sequences, hidden]`."""
    return model.encode(batch, first_only=True)


COMPUTE: dict[Pooling, Callable[[BertModel, Batch], Tensor]] = {
    "mean": mean_vectors,
    "first_token": first_token_vectors,
    "pooler": BertModel.encode_pooled,
}

"""Text embeddings: a vector for each text.

Pooling makes one vector of the vectors of a text's tokens. The default is the mean over tokens, not
the vector of [CLS] or the output of the pooler: without fine-tuning, distances of means reflect
similarity best (Reimers & Gurevych 2019, table 1). If a folder of sentence-transformers names
another pooling, that one is used.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import (
    EncodedTexts,
    TruncationSide,
    check_stored_length,
    encode_texts,
)
from bertsmith.data.examples import Example
from bertsmith.errors import CheckpointError, SettingError, option
from bertsmith.metrics.unit_vectors import unit_length
from bertsmith.model.bert import BertModel
from bertsmith.model.layers import mean_over_sequences
from bertsmith.system.bounds import check_choice
from bertsmith.tasks.inference import LoadedModel, compute_in_order
from bertsmith.tasks.prediction import InferenceTask, text_example
from bertsmith.tasks.sentence_folder import (
    Pooling,
    SentenceFolder,
    Similarity,
    check_case,
    find_length_file,
    warn_of_outer_pooling,
)
from bertsmith.tasks.vector_prediction import TextVector
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.tokenizer_files import MIN_MAX_LENGTH


@dataclass(frozen=True)
class TextVectors(InferenceTask[Example, TextVector]):
    """Vectors of texts or pairs, of at most `max_length` tokens."""

    max_length: int
    pooling: Pooling = "mean"
    """Pooling of token vectors; `first_token` takes the vector of [CLS]."""
    normalize: bool = False
    """Whether vectors are scaled to length 1."""
    similarity: Similarity = "cosine"
    """The comparison of two vectors: cosine, dot product, or a negative distance."""
    truncation_side: TruncationSide = "right"
    """The end at which a text above `max_length` is cut."""

    pipeline = "feature-extraction"  # the tag of the Hugging Face pipeline
    heads = ()  # the encoder alone
    example_type = Example
    fields = ("text", "pair")  # the keys of an example that is given as a dictionary
    titles = ("vector", "text", "second text")  # of the columns of predictions

    def __post_init__(self) -> None:
        check_choice("pooling", self.pooling, get_args(Pooling))
        check_choice("similarity", self.similarity, get_args(Similarity))
        check_choice("truncation_side", self.truncation_side, get_args(TruncationSide))
        if not (
            isinstance(self.max_length, int | np.integer) and self.max_length >= MIN_MAX_LENGTH
        ):
            raise SettingError("max_length", self.max_length, f"{MIN_MAX_LENGTH} or more")

    @classmethod
    def restore(
        cls, loaded: LoadedModel, *, pooling: Pooling | None = None, normalize: bool = False
    ) -> Self:
        """Read the settings of a sentence-transformers folder; other folders have the defaults.

        `pooling` replaces the pooling that the folder names. `normalize` scales vectors to length 1
        even if the folder does not say so.

        Raises:
            ConfigError: there is no such pooling.
            CheckpointError: the model has no pooler or gives no vectors, or the folder names
                something unsupported.
        """
        loaded.folder.check_encoder()  # refuses models such as a T5
        if pooling == "pooler" and loaded.model.pooler is None:
            raise CheckpointError(
                f"{loaded.folder.path}: the model has no pooler. Use {option('pooling', 'mean')}."
            )
        files = loaded.folder.files
        folder = SentenceFolder.read(files, pooling=pooling)
        # The model may lie in a subfolder of a sentence encoder with another pooling.
        warn_of_outer_pooling(files, folder, pooling)
        check_case(files, loaded.tokenizer)  # refuses lower case that the tokenizer does not do
        if folder.max_length is not None:
            location = f"{files.path(find_length_file(files))}: max_seq_length"
            check_stored_length(loaded.tokenizer, folder.max_length, location)
        # The length that the user gave, else the sentence encoder's, else the model's.
        own_length = loaded.requested_length or folder.max_length or loaded.max_length
        return cls(
            max_length=min(loaded.max_length, own_length),
            pooling=folder.pooling or "mean",
            normalize=normalize or folder.normalize,
            similarity=folder.similarity,
        )

    def example(self, record: Mapping[str, Any]) -> Example:
        return text_example(record)

    def encode(
        self, tokenizer: Tokenizer, examples: Sequence[Example], max_length: int, *, labelled: bool
    ) -> EncodedExamples:
        """Encode each text or pair to a row, cut at the `truncation_side`.

        `labelled` changes nothing, since texts have no labels here.
        """
        texts = ((example.text, example.pair) for example in examples)
        length = min(max_length, self.max_length)
        rows = encode_texts(tokenizer, texts, length, self.truncation_side)
        return EncodedExamples.of_texts(rows)

    def compute_outputs(self, model: BertModel, encoded: EncodedExamples) -> NDArray[np.float32]:
        return self.vectors(model, encoded.rows)

    def decode(
        self,
        outputs: NDArray[np.float32],
        encoded: EncodedExamples,
        examples: Sequence[Example],
    ) -> list[TextVector]:
        """Build a prediction of each text's vector; `outputs` are `[texts, hidden]`."""
        return [
            TextVector(vector, num_cut > 0)
            for vector, num_cut in zip(outputs, encoded.num_cut, strict=True)
        ]

    def vectors(self, model: BertModel, texts: EncodedTexts) -> NDArray[np.float32]:
        """Compute vectors in the order of the texts, fp32 `[texts, hidden]`."""
        if not len(texts):
            return np.empty((0, model.config.hidden_size), np.float32)
        vectors = compute_in_order(model, texts, COMPUTE[self.pooling])
        return unit_length(vectors) if self.normalize else vectors


def mean_vectors(model: BertModel, batch: Batch) -> Tensor:
    """Average over each sequence's tokens, special ones included, to `[sequences, hidden]`."""
    return mean_over_sequences(model.encode(batch).float(), batch)


def first_token_vectors(model: BertModel, batch: Batch) -> Tensor:
    """Return the vectors of [CLS], `[sequences, hidden]`, in the weights' dtype.

    The last layer computes only these vectors.
    """
    return model.encode(batch, queries="first")


COMPUTE: dict[Pooling, Callable[[BertModel, Batch], Tensor]] = {
    "mean": mean_vectors,
    "first_token": first_token_vectors,
    "pooler": BertModel.encode_pooled,
}
"""Functions that compute the vectors of a batch, `[sequences, hidden]`, by pooling."""

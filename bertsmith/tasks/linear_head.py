"""A linear head on frozen vectors and on counted tokens.

The logits are a linear function of two things: the encoder's vector of the text (the mean over its
tokens), and TF-IDF of its n-grams, which are tokens and pairs of neighbouring tokens. The encoder
is not changed, so that the head is fitted in a second. A head that also learned from a corpus has
weights of further n-grams, and a weight for each token of the vocabulary and each label. The mean
of the latter over the tokens of a row (a text, or a window of a long text) is added to the row's
logits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.errors import CheckpointError
from bertsmith.model.head_names import LINEAR_HEAD_FILE
from bertsmith.model.weight_formats.safetensors_file import read_safetensors, write_safetensors
from bertsmith.tasks.token_ngrams import TokenNgrams

TENSORS = {
    "vector_weights": torch.float32,
    "bias": torch.float32,
    "ngram_keys": torch.int64,
    "ngram_idf": torch.float32,
    "ngram_weights": torch.float32,
    "vocab_size": torch.int64,
    "special_ids": torch.int64,
}
"""Names and types of the tensors in the file of a head."""
CORPUS_TENSORS = {
    "token_weights": torch.float32,
    "corpus_ngram_keys": torch.int64,
    "corpus_ngram_idf": torch.float32,
    "corpus_ngram_weights": torch.float32,
}
"""Names and types of the further tensors of a head that learned from a corpus."""


@dataclass(frozen=True)
class CorpusWeights:
    """Weights that a head learned from a corpus, fp32; an output is the logit of a label.

    `token_weights` are `[vocabulary, outputs]`; their mean over the tokens of a row, special
    tokens left out, is added to the row's logits. A text's logits are the mean over its rows.
    `ngram_weights` are `[ngrams, outputs]`, one row for each of the `ngrams`, which come from the
    sentences of the corpus.
    """

    token_weights: NDArray[np.float32]
    ngrams: TokenNgrams
    ngram_weights: NDArray[np.float32]


@dataclass(frozen=True)
class LinearHead:
    """The weights of a linear head, fp32; an output is the logit of a label.

    Shapes: `vector_weights` `[hidden, outputs]`, `bias` `[outputs]`, and `ngram_weights` `[ngrams,
    outputs]`, one row for each of the `ngrams` of the labelled texts. `corpus` holds the further
    weights of a head that also learned from a corpus.
    """

    vector_weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    ngrams: TokenNgrams
    ngram_weights: NDArray[np.float32]
    corpus: CorpusWeights | None = None

    @property
    def num_outputs(self) -> int:
        return len(self.bias)

    def save(self, directory: Path) -> None:
        """Write the head into a model folder."""
        arrays = {
            "vector_weights": self.vector_weights,
            "bias": self.bias,
            "ngram_keys": self.ngrams.keys,
            "ngram_idf": self.ngrams.idf,
            "ngram_weights": self.ngram_weights,
            "vocab_size": np.array([self.ngrams.vocab_size]),
            "special_ids": np.array(sorted(self.ngrams.special_ids), dtype=np.int64),
        }
        tensors = {
            name: torch.from_numpy(array).to(TENSORS[name]) for name, array in arrays.items()
        }
        if self.corpus is not None:
            tensors |= {
                "token_weights": torch.from_numpy(self.corpus.token_weights),
                "corpus_ngram_keys": torch.from_numpy(self.corpus.ngrams.keys),
                "corpus_ngram_idf": torch.from_numpy(self.corpus.ngrams.idf),
                "corpus_ngram_weights": torch.from_numpy(self.corpus.ngram_weights),
            }
        write_safetensors(directory / LINEAR_HEAD_FILE, tensors)

    @classmethod
    def read(cls, file: Path, hidden_size: int, num_outputs: int) -> Self:
        """Read the head of a model folder.

        Raises:
            CheckpointError: the file is damaged, or is not of a model with these sizes.
        """
        tensors = read_safetensors(file)
        _check(file, tensors, hidden_size, num_outputs)
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        vocab_size = int(arrays["vocab_size"][0])
        special_ids = frozenset(arrays["special_ids"].tolist())
        ngrams = TokenNgrams(arrays["ngram_keys"], arrays["ngram_idf"], vocab_size, special_ids)
        corpus = None
        if "token_weights" in arrays:
            keys, idf = arrays["corpus_ngram_keys"], arrays["corpus_ngram_idf"]
            corpus = CorpusWeights(
                arrays["token_weights"],
                TokenNgrams(keys, idf, vocab_size, special_ids),
                arrays["corpus_ngram_weights"],
            )
        return cls(
            arrays["vector_weights"], arrays["bias"], ngrams, arrays["ngram_weights"], corpus
        )


def _check(file: Path, tensors: Mapping[str, Tensor], hidden_size: int, num_outputs: int) -> None:
    """Check names, types, shapes and values of the tensors.

    Raises:
        CheckpointError: they are not those of a head for a model with these sizes.
    """
    expected = TENSORS | CORPUS_TENSORS if "token_weights" in tensors else TENSORS
    if tensors.keys() != expected.keys():
        raise _damaged(file, f"it holds {', '.join(sorted(tensors)) or 'nothing'}")
    for name, dtype in expected.items():
        if tensors[name].dtype != dtype:
            raise _damaged(file, f"{name} has the type {tensors[name].dtype}, not {dtype}")
    for name in ("ngram_keys", "special_ids", "corpus_ngram_keys"):  # those of any length
        if name in tensors and tensors[name].dim() != 1:
            raise _damaged(file, f"{name} has {tensors[name].dim()} dimensions, not 1")
    num_ngrams = len(tensors["ngram_keys"])
    shapes = {
        "vector_weights": [hidden_size, num_outputs],
        "bias": [num_outputs],
        "ngram_keys": [num_ngrams],
        "ngram_idf": [num_ngrams],
        "ngram_weights": [num_ngrams, num_outputs],
        "vocab_size": [1],
    }
    _check_shapes(file, tensors, shapes)
    if "token_weights" in tensors:
        num_ngrams = len(tensors["corpus_ngram_keys"])
        shapes = {
            "token_weights": [int(tensors["vocab_size"]), num_outputs],
            "corpus_ngram_keys": [num_ngrams],
            "corpus_ngram_idf": [num_ngrams],
            "corpus_ngram_weights": [num_ngrams, num_outputs],
        }
        _check_shapes(file, tensors, shapes)
    for name in ("ngram_keys", "corpus_ngram_keys"):
        # N-grams are looked up by bisection, so they must be sorted and different.
        if name in tensors and bool((tensors[name].diff() <= 0).any()):
            raise _damaged(file, "its n-grams are not in ascending order")
    if not all(tensor.isfinite().all() for tensor in tensors.values()):
        raise _damaged(file, "it holds NaN or infinite numbers")


def _check_shapes(
    file: Path, tensors: Mapping[str, Tensor], shapes: Mapping[str, list[int]]
) -> None:
    for name, shape in shapes.items():
        if list(tensors[name].shape) != shape:
            raise _damaged(file, f"{name} has the shape {list(tensors[name].shape)}, not {shape}")


def _damaged(file: Path, reason: str) -> CheckpointError:
    """Build the error about a file that is not the head of its model."""
    return CheckpointError(
        f"{file}: this is not the linear head of the model beside it: {reason}. Copy the folder "
        "again, or fit the head anew with 'bertsmith finetune classify --head linear'."
    )

"""Predictions that are vectors: one for a text, or one for each text of an example."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.examples import Example
from bertsmith.data.sentence_pairs import RelatedTexts
from bertsmith.system.counts import count_noun
from bertsmith.system.notebook import html_lines, html_table

SHOWN_NUMBERS = 8
"""Number of values of a vector that a notebook shows."""


@dataclass(frozen=True, eq=False)  # arrays have no single result of ==
class TextVector:
    """The vector of a text, fp32 `[hidden]`."""

    vector: NDArray[np.float32]
    is_truncated: bool = False
    """Whether the end of the text was cut off, as it was longer than the model reads."""
    num_windows: ClassVar[int] = 1  # no vector is computed in windows

    @property
    def answer(self) -> NDArray[np.float32]:
        return self.vector

    def to_json(self) -> dict[str, Any]:
        return {"vector": self.vector.tolist(), "is_truncated": self.is_truncated}

    def line(self, example: Example) -> str:
        return "\t".join([" ".join(f"{number:.6g}" for number in self.vector), *example.one_line()])

    def _repr_html_(self) -> str:
        numbers = " ".join(f"{number:.6g}" for number in self.vector[:SHOWN_NUMBERS])
        return html_lines([f"{count_noun(len(self.vector), 'number')}: {numbers} …"])


@dataclass(frozen=True, eq=False)
class Vectors:
    """The vectors of an example's texts, fp32 `[texts, hidden]`, in their order.

    The first two texts are those whose similarity is predicted.
    """

    vectors: NDArray[np.float32]
    is_truncated: bool
    """Whether a text was longer than the model reads and was cut."""
    num_windows: ClassVar[int] = 1  # no vector is computed in windows

    @property
    def cosine(self) -> float:
        """The cosine similarity of the first two texts, from -1 to 1."""
        first, second = self.vectors[:2].astype(np.float64)
        norms = np.linalg.norm(first) * np.linalg.norm(second)
        # 1e-12: no division by 0 for a vector of zeros. The cosine of equal vectors may be rounded
        # to above 1. A vector with nan gives nan.
        return float(np.clip(first @ second / max(norms, 1e-12), -1, 1))

    @property
    def answer(self) -> float:
        return self.cosine

    def to_json(self) -> dict[str, Any]:
        return {"cosine": self.cosine, "is_truncated": self.is_truncated}

    def line(self, example: RelatedTexts) -> str:
        texts = (" ".join(text.split()) for text in example.texts[:2])
        return "\t".join([f"{self.cosine:.4f}", *texts])

    def _repr_html_(self) -> str:
        return html_table([(f"{self.cosine:.4f}",)], ("cosine",))

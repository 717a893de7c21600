"""Agreement of predictions in bf16 or int8 with those in fp32, by what is compared."""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Agreement(Protocol):
    """The difference between predictions in bf16 or int8 and those in fp32."""

    @property
    def name(self) -> str:
        """The key in a JSON report, before `_beside_fp32`."""
        ...

    def _asdict(self) -> dict[str, Any]: ...

    def sentence(self, precision: str) -> str:
        """Format the comparison for people."""
        ...


class CosineAgreement(NamedTuple):
    """Mean and worst cosine between sampled vectors and those in fp32."""

    mean: float
    worst: float
    num_texts: int

    @property
    def name(self) -> str:
        return "cosine"

    @classmethod
    def between(cls, mine: NDArray[np.float32], exact: NDArray[np.float32]) -> "CosineAgreement":
        """Compare vectors `[texts, hidden]`, row by row."""
        norms = np.linalg.norm(mine, axis=1) * np.linalg.norm(exact, axis=1)
        cosines = (mine * exact).sum(1) / np.maximum(norms, 1e-12)
        return cls(float(cosines.mean()), float(cosines.min()), len(cosines))

    def sentence(self, precision: str) -> str:
        return (
            f"{precision} beside fp32 on {self.num_texts} of these texts: "
            f"cosine {self.mean:.5f} on average, {self.worst:.5f} at worst"
        )


class LabelAgreement(NamedTuple):
    """The number of sampled texts with another label in fp32."""

    num_changed: int
    num_texts: int

    @property
    def name(self) -> str:
        return "labels"

    def sentence(self, precision: str) -> str:
        return (
            f"{precision} beside fp32 on {self.num_texts} of these texts: {self.num_changed} with "
            "another label"
        )


class AnswerAgreement(NamedTuple):
    """The number of sampled questions with another answer in fp32."""

    num_changed: int
    num_questions: int

    @property
    def name(self) -> str:
        return "answers"

    def sentence(self, precision: str) -> str:
        return (
            f"{precision} beside fp32 on {self.num_questions} of these questions: "
            f"{self.num_changed} with another answer"
        )


class NumberAgreement(NamedTuple):
    """Mean and largest difference from fp32 of the numbers of a sample."""

    mean: float
    worst: float
    num_texts: int

    @property
    def name(self) -> str:
        return "numbers"

    def sentence(self, precision: str) -> str:
        return (
            f"{precision} beside fp32 on {self.num_texts} of these texts: {self.mean:.4f} off on "
            f"average, {self.worst:.4f} at worst"
        )


class NotCompared(NamedTuple):
    """The result where no text was short enough for a second computation."""

    num_texts: int
    max_tokens: int

    @property
    def name(self) -> str:
        return "nothing"

    def sentence(self, precision: str) -> str:
        return (
            f"{precision} was not compared with fp32: each of the texts looked at has more than "
            f"{self.max_tokens:,} tokens, which would take long. --precision fp32 computes in it."
        )

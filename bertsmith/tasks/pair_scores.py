"""Minimal pairs of sentences, and the scores of both.

The sentences of a minimal pair differ in one thing, which makes one of them wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bertsmith.system.notebook import html_table


@dataclass(frozen=True, slots=True)
class MinimalPair:
    """A good and a bad sentence; `row` is the line in the file, from 1."""

    good: str
    bad: str
    groups: Mapping[str, str] = field(default_factory=dict)
    """Names of the groups that the pair belongs to, by kind: "paradigm", "phenomenon", "field"."""
    row: int = 0

    @property
    def content(self) -> tuple[str, str]:
        return self.good, self.bad

    def to_json(self) -> dict[str, Any]:
        sentences = {"sentence_good": self.good, "sentence_bad": self.bad}
        return {"line": self.row, **self.groups, **sentences}


@dataclass(frozen=True, slots=True)
class PairScores:
    """The pseudo-log-likelihoods of a pair's sentences, in nats.

    A pseudo-log-likelihood is the sum of the log-probabilities of a sentence's tokens, each of them
    predicted with itself masked.
    """

    good: float
    bad: float
    is_identical: bool = False
    """Whether both sentences have the same tokens, such as if only unknown words differ."""
    is_truncated: bool = False
    """Whether a sentence was longer than the model reads and was cut."""
    num_windows = 1  # sentences are not read in windows

    @property
    def answer(self) -> str:
        """The likelier sentence: good or bad, or tie."""
        if self.good == self.bad:
            return "tie"
        return "good" if self.good > self.bad else "bad"

    def to_json(self) -> dict[str, Any]:
        return {
            "score_good": self.good,
            "score_bad": self.bad,
            "likelier": self.answer,
            "is_truncated": self.is_truncated,
        }

    def line(self, example: MinimalPair) -> str:
        sentences = (" ".join(text.split()) for text in example.content)
        return "\t".join([f"{self.good:.4f}", f"{self.bad:.4f}", *sentences])

    def _repr_html_(self) -> str:
        rows = [("good", f"{self.good:.4f}"), ("bad", f"{self.bad:.4f}")]
        return html_table(rows, ("sentence", "log-likelihood"))

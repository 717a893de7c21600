"""Predicted answers in a passage: text, offsets, probabilities and display."""

import unicodedata
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.text import Text as RichText

from bertsmith.data.squad import Question
from bertsmith.metrics.answers import ENDLESS
from bertsmith.tasks.answer_spans import SpanCandidates

NONE = "(no answer)"
NUM_SHOWN = 5
"""Candidates in a line of a file of predictions."""
SHOWN_CHARACTERS = 120
"""Characters of the passage shown on each side of an answer."""


class Candidate(NamedTuple):
    """A possible answer, `context[start:end]`, and its probability among all candidates."""

    text: str
    start: int
    end: int
    probability: float


@dataclass(frozen=True, slots=True, eq=False)
class AnswerPrediction:
    """The answers predicted in a passage.

    No answer is given where `no_answer_score` is above `threshold`; None: the model always answers.
    """

    context: str
    spans: SpanCandidates
    threshold: float | None
    is_truncated: bool
    """Whether the end of the question, or of a passage that was to be cut, was ignored."""
    num_windows: int = 1
    """Number of windows in which the model read the passage."""
    loss: float | None = None
    """Cross entropy of the right start and end; None where they are unknown."""

    @property
    def is_answered(self) -> bool:
        """Whether an answer is given."""
        limit = inf if self.threshold is None else self.threshold
        return len(self.spans.scores) > 0 and self.spans.no_answer_score <= limit

    @property
    def answer(self) -> str:
        """The answer as it stands in the passage; empty if none."""
        return self.best[0] if self.is_answered else ""

    @property
    def start(self) -> int | None:
        """The first character of the answer in the passage."""
        return self.best[1] if self.is_answered else None

    @property
    def end(self) -> int | None:
        """One past the last character of the answer."""
        return self.best[2] if self.is_answered else None

    @property
    def best(self) -> tuple[str, int, int]:
        """The best span and its offsets, given as answer or not.

        It is empty where there is no span.
        """
        if not len(self.spans.scores):
            return "", 0, 0
        return self._located(0)

    @property
    def probability(self) -> float:
        """The probability of the decision among all candidates, from 0 to 1."""
        probabilities = self._probabilities()
        return float(probabilities[0] if self.is_answered else 1 - probabilities.sum())

    @property
    def no_answer_score(self) -> float:
        """The no-answer score minus the best span's, in logits; always finite."""
        return min(self.spans.no_answer_score, ENDLESS)

    def candidates(self, count: int = NUM_SHOWN) -> list[Candidate]:
        """Return the likeliest answers, best first."""
        probabilities = self._probabilities()[:count].tolist()
        return [Candidate(*self._located(i), share) for i, share in enumerate(probabilities)]

    def to_json(self) -> dict[str, Any]:
        """Return the answer, its offsets, and the next best."""
        return {
            "answer": self.answer,
            "start": self.start,
            "end": self.end,
            "probability": self.probability,
            "no_answer_score": self.no_answer_score,
            "candidates": [
                {"answer": text, "start": start, "end": end, "probability": probability}
                for text, start, end, probability in self.candidates()
            ],
            "is_truncated": self.is_truncated,
            "num_windows": self.num_windows,
        }

    def line(self, example: Question) -> RichText:
        """Format answer, probability, question and passage, separated by tabs.

        The answer is marked in the passage.
        """
        answer = one_line(self.answer) or NONE
        line = RichText(f"{answer}\t{self.probability:.4f}\t{one_line(example.question)}\t")
        before, found, after = passage(example.context, self.start, self.end)
        return line.append(before).append(found, "bold reverse").append(after)

    def _probabilities(self) -> NDArray[np.float64]:
        return self.spans.probabilities(with_null=self.threshold is not None)

    def _located(self, place: int) -> tuple[str, int, int]:
        start = int(self.spans.starts[place])
        end = whole_character(self.context, int(self.spans.stops[place]))
        return self.context[start:end], start, end


def whole_character(text: str, end: int) -> int:
    """Move `end` past the combining marks of the character before it.

    Uncased models do not see accents that are characters of their own.

    >>> whole_character("cafe\\u0301s", 4)
    5
    """
    while end < len(text) and unicodedata.category(text[end]) in ("Mn", "Me"):
        end += 1
    return end


def one_line(text: str) -> str:
    """Collapse all white space to single spaces."""
    return " ".join(text.split())


def passage(context: str, start: int | None, end: int | None) -> tuple[str, str, str]:
    """Split a context into the text before, in and after an answer.

    Each part is on one line; text far from the answer is left out.
    """
    if start is None or end is None:
        shown = one_line(context[: 2 * SHOWN_CHARACTERS])
        return shown + "…" * (len(context) > 2 * SHOWN_CHARACTERS), "", ""
    first, last = max(0, start - SHOWN_CHARACTERS), end + SHOWN_CHARACTERS
    before = "…" * (first > 0) + spaced(context[first:start])
    return (
        before,
        spaced(context[start:end]),
        spaced(context[end:last]) + "…" * (last < len(context)),
    )


def spaced(text: str) -> str:
    """Collapse white space, keeping one space at either end."""
    return f"{' ' * text[:1].isspace()}{one_line(text)}{' ' * text[-1:].isspace()}"

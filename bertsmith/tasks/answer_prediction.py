"""Predicted answers in a passage: text, offsets, probabilities and display."""

import unicodedata
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.squad import Question
from bertsmith.metrics.answers import INFINITE_SCORE
from bertsmith.system.notebook import html_table
from bertsmith.tasks.answer_search import SpanCandidates
from bertsmith.tasks.marks import RIGHT, Mark, MarkedPart, mark_spans

NO_ANSWER_TEXT = "(no answer)"
NUM_SHOWN = 5
"""Number of candidates in a line of a file of predictions."""
PASSAGE_CHARACTERS = 120
"""Characters of the passage shown on each side of an answer."""


class AnswerSpan(NamedTuple):
    """A part of a passage, `context[start:end]`."""

    text: str
    start: int
    end: int


class Candidate(NamedTuple):
    """A possible answer, `context[start:end]`, and its probability among all candidates."""

    text: str
    start: int
    end: int
    probability: float


@dataclass(frozen=True, slots=True, eq=False)  # arrays have no single result of ==
class AnswerPrediction:
    """The answers predicted in a passage.

    The prediction is "no answer" if `no_answer_score` is above `threshold`; both are differences of
    logits. A `threshold` of None means that the model always answers.
    """

    context: str
    spans: SpanCandidates
    """The best spans of the passage, best first, with their scores, and the no-answer score."""
    threshold: float | None
    is_truncated: bool
    """Whether the end of the question was cut off, or the end of the passage (if long passages are
    cut, not windowed)."""
    num_windows: int = 1
    """Number of windows, overlapping parts, in which the passage was read."""
    loss: float | None = None
    """Cross entropy of the right start and end; None if the question was encoded without them."""
    is_right_too_long: bool = False
    """Whether all right answers have more tokens than a predicted answer may have."""
    is_right_inside_token: bool = False
    """Whether all right answers begin or end inside a token, as no predicted answer can."""

    @property
    def is_answered(self) -> bool:
        """Whether the prediction is a span, not "no answer"."""
        threshold = inf if self.threshold is None else self.threshold
        return len(self.spans.scores) > 0 and self.spans.no_answer_score <= threshold

    @property
    def answer(self) -> str:
        """The answer as it is in the passage; empty if there is none."""
        return self.best.text if self.is_answered else ""

    @property
    def start(self) -> int | None:
        """The first character of the answer in the passage."""
        return self.best.start if self.is_answered else None

    @property
    def end(self) -> int | None:
        """One past the last character of the answer."""
        return self.best.end if self.is_answered else None

    @property
    def best(self) -> AnswerSpan:
        """The text and offsets of the best span, even where the prediction is "no answer".

        The text is empty where there is no span.
        """
        if not len(self.spans.scores):
            return AnswerSpan("", 0, 0)
        return self._span_at(0)

    @property
    def probability(self) -> float:
        """The probability of the decision among all candidates, from 0 to 1."""
        probabilities = self._probabilities()
        if self.is_answered:
            return float(probabilities[0])
        return max(0.0, 1 - float(probabilities.sum()))  # the sum may be rounded to above 1

    @property
    def no_answer_score(self) -> float:
        """The no-answer score minus the best span's score, in logits.

        Without a span it is `INFINITE_SCORE`, a large finite number, which JSON can hold.
        """
        return min(self.spans.no_answer_score, INFINITE_SCORE)

    def candidates(self, count: int = NUM_SHOWN) -> list[Candidate]:
        """Return the likeliest answers, best first."""
        probabilities = self._probabilities()[:count].tolist()
        return [
            Candidate(*self._span_at(index), probability)
            for index, probability in enumerate(probabilities)
        ]

    def to_json(self) -> dict[str, Any]:
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

    def line(self, example: Question) -> Any:
        from rich.text import Text as RichText  # imported only where a line is shown

        answer = one_line(self.answer) or NO_ANSWER_TEXT
        line = RichText(f"{answer}\t{self.probability:.4f}\t{one_line(example.question)}\t")
        for part in self.parts():  # only the answer has a color
            line.append(collapse_spaces(part.text), "" if part.color is None else "bold reverse")
        return line

    def _repr_html_(self) -> str:
        """Show the predicted answer, and then the other candidates."""
        candidates = self.candidates()
        others = candidates[1:] if self.is_answered else candidates
        rows = [(one_line(self.answer) or NO_ANSWER_TEXT, f"{self.probability:.4f}")]
        rows += [(one_line(candidate.text), f"{candidate.probability:.4f}") for candidate in others]
        return html_table(rows, ("answer", "probability"))

    def parts(self) -> list[MarkedPart]:
        """Return the passage around the answer, with the answer marked."""
        best = self.best
        marks = [Mark(best.start, best.end, label="", color=RIGHT)] if self.is_answered else []
        return mark_spans(self.context, marks, PASSAGE_CHARACTERS)

    def _probabilities(self) -> NDArray[np.float64]:
        # "No answer" has a share of the probability only if the model may give it.
        return self.spans.probabilities(with_null=self.threshold is not None)

    def _span_at(self, index: int) -> AnswerSpan:
        start = int(self.spans.starts[index])
        end = _whole_character(self.context, int(self.spans.stops[index]))
        return AnswerSpan(self.context[start:end], start, end)


def _whole_character(text: str, end: int) -> int:
    """Move `end` past the combining marks of the character before it.

    Tokenizers of uncased models remove accents that are characters of their own, so that the span
    of a token ends before such an accent.

    >>> _whole_character("cafe\\u0301s", 4)
    5
    """
    while end < len(text) and unicodedata.category(text[end]) in ("Mn", "Me"):
        end += 1
    return end


def one_line(text: str) -> str:
    """Collapse all white space to single spaces, with none at the ends."""
    return " ".join(text.split())


def collapse_spaces(text: str) -> str:
    """Collapse all white space to single spaces, also at the ends."""
    before = " " if text[:1].isspace() else ""
    after = " " if text[-1:].isspace() else ""
    return before + one_line(text) + after

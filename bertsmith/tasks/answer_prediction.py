"""Predicted answers in a passage: text, offsets, probabilities and display."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.question_windows import NO_ANSWER, ContextWindow, offsets_of
from bertsmith.data.squad import Question
from bertsmith.metrics.answers import INFINITE_SCORE
from bertsmith.system.notebook import html_table
from bertsmith.tasks.marks import RIGHT, Mark, MarkedPart, mark_spans
from bertsmith.tasks.probabilities import softmax64

NUM_CANDIDATES = 20
"""Number of a question's best spans over which probabilities are computed, as in BERT's released
code."""
PADDED_LOGITS = 1 << 18
"""Largest number of logits, padding included, in a group of windows that are searched together.
They are so few that they stay in the processor's cache."""

Scores = NDArray[np.float32]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class SpanCandidates:
    """One question's best spans, best first, and the no-answer score.

    `starts` and `stops` are characters of the context (from, and one past the last), int64
    `[candidates]`; `scores` are sums of two logits, fp32 `[candidates]`. All are empty where the
    context has no token.
    """

    starts: Indices
    stops: Indices
    scores: Scores
    null_score: float

    @property
    def no_answer_score(self) -> float:
        """The no-answer score minus the best span's, in logits; infinite without a span."""
        return self.null_score - float(self.scores[0]) if len(self.scores) else np.inf

    def probabilities(self, *, with_null: bool) -> NDArray[np.float64]:
        """Compute the softmax over candidates (and no answer if `with_null`).

        The result is fp64 `[candidates]`, without the probability of no answer.
        """
        null = [self.null_score] if with_null or not len(self.scores) else []
        return softmax64(np.concatenate([self.scores, null]))[: len(self.scores)]


def best_answers(
    logits: Sequence[Scores], encoded: EncodedExamples, max_answer_length: int
) -> list[SpanCandidates]:
    """Find the best spans of each question, of at most `max_answer_length` tokens.

    `logits` holds an array for each row, fp32 `[tokens, 2]`: each token's logits as the start and
    as the end.
    """
    spans = _find_best_spans(logits, encoded.alignment, max_answer_length)
    spans = _merge_windows(spans, encoded.example_of_row())
    firsts = np.searchsorted(spans.owners, np.arange(len(encoded) + 1)).tolist()
    nulls = _null_scores(logits, encoded.starts)
    return [
        _locate(spans[slice(first, stop)], offsets_of(encoded, question), nulls[question])
        for question, (first, stop) in enumerate(pairwise(firsts))
    ]


@dataclass(frozen=True)
class _Spans:
    """Token spans of contexts with their scores, as arrays with one entry for each span.

    `firsts` and `lasts` are the indices, in the context, of a span's first and last token. `owners`
    are indices of rows, or after `_merge_windows` of questions.
    """

    owners: Indices
    firsts: Indices
    lasts: Indices
    scores: Scores

    def __getitem__(self, chosen: Any) -> "_Spans":
        return _Spans(
            self.owners[chosen], self.firsts[chosen], self.lasts[chosen], self.scores[chosen]
        )

    @classmethod
    def joined(cls, parts: Sequence["_Spans"]) -> "_Spans":
        no_indices = np.empty(0, dtype=np.int64)
        no_scores = np.empty(0, dtype=np.float32)
        return cls(
            np.concatenate([no_indices, *(part.owners for part in parts)]),
            np.concatenate([no_indices, *(part.firsts for part in parts)]),
            np.concatenate([no_indices, *(part.lasts for part in parts)]),
            np.concatenate([no_scores, *(part.scores for part in parts)]),
        )


def _null_scores(logits: Sequence[Scores], starts: Indices) -> list[float]:
    """Compute each question's no-answer score, the lowest of its windows.

    The windows without the answer have high no-answer scores even if the question has an answer, so
    the lowest score decides.
    """
    nulls = np.array([row[NO_ANSWER].sum() for row in logits], dtype=np.float32)
    return np.minimum.reduceat(nulls, starts[:-1]).tolist()


def _find_best_spans(
    logits: Sequence[Scores], windows: Sequence[ContextWindow], max_answer_length: int
) -> _Spans:
    """Find the best spans of each row, at most `NUM_CANDIDATES`."""
    parts = []
    for rows in _group_rows([window.size for window in windows]):
        size = windows[rows[0]].size
        width = min(max_answer_length, size)
        starts = np.full((len(rows), size), -np.inf, dtype=np.float32)
        ends = np.full((len(rows), size + width), -np.inf, dtype=np.float32)
        for index, row in enumerate(rows):
            window = windows[row]
            context_logits = logits[row][window.first : window.first + window.size]
            starts[index, : window.size] = context_logits[:, 0]
            ends[index, : window.size] = context_logits[:, 1]
        spans = _top_spans(starts, ends, width)
        begins = np.array([windows[row].begin for row in rows], dtype=np.int64)[spans.owners]
        parts.append(
            _Spans(
                owners=np.array(rows)[spans.owners],
                firsts=spans.firsts + begins,
                lasts=spans.lasts + begins,
                scores=spans.scores,
            )
        )
    return _Spans.joined(parts)


def _top_spans(starts: Scores, ends: Scores, width: int) -> _Spans:
    """Find the best spans of each row, in any order, of at most `width` tokens.

    `starts` is `[rows, tokens]`, `ends` `[rows, tokens + width]`, with minus infinity as padding.
    Each of the best `n` spans begins at one of the `n` starts whose best span scores highest, so
    only spans from these starts are compared.
    """
    num_rows, size = starts.shape
    following = sliding_window_view(ends, width, axis=1)[:, :size]
    highest = starts + following.max(-1)
    count = min(NUM_CANDIDATES, size)
    begins = np.argpartition(highest, size - count, axis=1)[:, size - count :]
    row_index = np.arange(num_rows)[:, None]
    scores = starts[row_index, begins][:, :, None] + following[row_index, begins]
    scores = scores.reshape(num_rows, -1)
    count = min(NUM_CANDIDATES, scores.shape[1])
    best = np.argpartition(scores, -count, axis=1)[:, -count:]
    chosen = scores[row_index, best]
    is_span = np.isfinite(chosen)  # not padding
    first = begins[row_index, best // width]
    rows = np.broadcast_to(row_index, chosen.shape)
    last = first + best % width
    return _Spans(rows[is_span], first[is_span], last[is_span], chosen[is_span])


def _group_rows(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield groups of non-empty rows of similar size, largest first."""
    order = np.argsort(-np.asarray(sizes, dtype=np.int64), kind="stable")
    rows = [row for row in order.tolist() if sizes[row]]
    while rows:
        count = max(1, PADDED_LOGITS // sizes[rows[0]])
        yield rows[:count]
        rows = rows[count:]


def _merge_windows(spans: _Spans, owners: Indices) -> _Spans:
    """Select each question's best `NUM_CANDIDATES` spans without duplicates, the best first.

    `owners` maps rows to questions. Of equal scores the earlier start wins, then the shorter span.
    """
    spans = _Spans(owners[spans.owners], spans.firsts, spans.lasts, spans.scores)
    spans = spans[np.lexsort((-spans.scores, spans.lasts, spans.firsts, spans.owners))]
    # Equal spans are now neighbours: the first of them, which has the best score, is kept.
    keys = np.stack([spans.owners, spans.firsts, spans.lasts])
    is_new = np.ones(keys.shape[1], dtype=bool)
    is_new[1:] = (keys[:, 1:] != keys[:, :-1]).any(0)
    spans = spans[is_new]
    spans = spans[np.lexsort((spans.lasts, spans.firsts, -spans.scores, spans.owners))]
    ranks = np.arange(len(spans.owners)) - np.searchsorted(spans.owners, spans.owners)
    return spans[ranks < NUM_CANDIDATES]


def _locate(spans: _Spans, offsets: NDArray[np.int32], null_score: float) -> SpanCandidates:
    """Convert token spans to characters of the context, leaving out empty ones.

    A span is empty if its tokens are only white space, for which byte-level BPE has tokens.
    """
    starts, stops = offsets[spans.firsts, 0], offsets[spans.lasts, 1]
    is_text = stops > starts
    return SpanCandidates(starts[is_text], stops[is_text], spans.scores[is_text], null_score)


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


@dataclass(frozen=True, slots=True, eq=False)
class AnswerPrediction:
    """The answers predicted in a passage.

    The prediction is "no answer" where `no_answer_score` is above `threshold`, both in logits. A
    `threshold` of None means that the model always answers.
    """

    context: str
    spans: SpanCandidates
    threshold: float | None
    is_truncated: bool
    """Whether the model did not read the end of the question, or of a passage that is cut."""
    num_windows: int = 1
    loss: float | None = None
    """Cross entropy of the right start and end; None without a right answer to compare with."""
    is_right_too_long: bool = False
    """Whether all right answers have more tokens than a predicted answer may have."""
    is_right_inside_token: bool = False
    """Whether all right answers begin or end inside a token, as no predicted answer can."""

    @property
    def is_answered(self) -> bool:
        limit = inf if self.threshold is None else self.threshold
        return len(self.spans.scores) > 0 and self.spans.no_answer_score <= limit

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
        return self._located(0)

    @property
    def probability(self) -> float:
        """The probability of the decision among all candidates, from 0 to 1."""
        probabilities = self._probabilities()
        return float(probabilities[0] if self.is_answered else 1 - probabilities.sum())

    @property
    def no_answer_score(self) -> float:
        """The no-answer score minus the best span's, in logits; always finite."""
        return min(self.spans.no_answer_score, INFINITE_SCORE)

    def candidates(self, count: int = NUM_SHOWN) -> list[Candidate]:
        """Return the likeliest answers, best first."""
        probabilities = self._probabilities()[:count].tolist()
        return [
            Candidate(*self._located(index), probability)
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
        for part in self.parts():
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
        best = self.best
        marks = [Mark(best.start, best.end, "", RIGHT)] if self.is_answered else []
        return mark_spans(self.context, marks, PASSAGE_CHARACTERS)

    def _probabilities(self) -> NDArray[np.float64]:
        return self.spans.probabilities(with_null=self.threshold is not None)

    def _located(self, index: int) -> AnswerSpan:
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

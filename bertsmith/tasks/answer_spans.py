"""Answer spans from start and end logits; numpy alone.

The score of a span is the logit of its start plus that of its end (Devlin et al. 2019, section
4.2). The spans of all windows of a question compete; one in several windows has its best score.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.question_windows import NO_ANSWER, ContextWindow, offsets_of

NUM_CANDIDATES = 20
"""Spans of a question over which probabilities are computed, as in the released code."""
PADDED_LOGITS = 1 << 18
"""Logits of windows that are searched together, so that they stay in the cache."""

Scores = NDArray[np.float32]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class SpanCandidates:
    """One question's best spans, best first, and the no-answer score.

    `starts` and `stops` are characters of the context (from, and one past the last), int64
    `[candidates]`; `scores` are sums of two logits, `[candidates]`. All are empty where the context
    has no token.
    """

    starts: Places
    stops: Places
    scores: Scores
    null_score: float

    @property
    def no_answer_score(self) -> float:
        """The no-answer score minus the best span's; infinite without a span."""
        return self.null_score - float(self.scores[0]) if len(self.scores) else np.inf

    def probabilities(self, *, with_null: bool) -> NDArray[np.float64]:
        """Compute the softmax over candidates (and no answer if `with_null`), `[candidates]`."""
        null = [self.null_score] if with_null or not len(self.scores) else []
        scores = np.concatenate([self.scores, null]).astype(np.float64)
        shares = np.exp(scores - scores.max())
        probabilities: NDArray[np.float64] = (shares / shares.sum())[: len(self.scores)]
        return probabilities


def best_answers(
    logits: Sequence[Scores], encoded: EncodedExamples, max_answer_length: int
) -> list[SpanCandidates]:
    """Find the best spans of each question, of at most `max_answer_length` tokens.

    `logits` are those of start and end for each token of each row, fp32 `[tokens, 2]`.
    """
    spans = find_best_spans(logits, encoded.alignment, max_answer_length)
    spans = merge_windows(spans, encoded.owners())
    firsts = np.searchsorted(spans.owners, np.arange(len(encoded) + 1)).tolist()
    nulls = null_scores(logits, encoded.starts)
    return [
        locate(spans[slice(first, stop)], offsets_of(encoded, question), nulls[question])
        for question, (first, stop) in enumerate(pairwise(firsts))
    ]


@dataclass(frozen=True)
class Spans:
    """Token spans of contexts with scores; one entry per span.

    `firsts` and `lasts` are tokens of the context; `owners` are rows, or questions.
    """

    owners: Places
    firsts: Places
    lasts: Places
    scores: Scores

    def __getitem__(self, chosen: Any) -> "Spans":
        return Spans(
            self.owners[chosen], self.firsts[chosen], self.lasts[chosen], self.scores[chosen]
        )


def null_scores(logits: Sequence[Scores], starts: Places) -> list[float]:
    """Compute each question's no-answer score, the lowest of its windows.

    A window that lacks the answer is sure that there is none, so the least sure one decides.
    """
    nulls = np.array([row[NO_ANSWER].sum() for row in logits], dtype=np.float32)
    least: list[float] = np.minimum.reduceat(nulls, starts[:-1]).tolist()
    return least


def find_best_spans(
    logits: Sequence[Scores], windows: Sequence[ContextWindow], max_answer_length: int
) -> Spans:
    """Find the best spans of each row, at most `NUM_CANDIDATES`."""
    none = np.empty(0, dtype=np.int64)
    found = [(none, none, none, np.empty(0, dtype=np.float32))]
    for rows in group_rows([window.size for window in windows]):
        size = windows[rows[0]].size
        width = min(max_answer_length, size)
        padded = np.full((2, len(rows), size + width), -np.inf, dtype=np.float32)
        for place, row in enumerate(rows):
            window = windows[row]
            part = slice(window.first, window.first + window.size)
            padded[:, place, : window.size] = logits[row][part].T
        places, firsts, lasts, scores = top_spans(padded[0, :, :size], padded[1], width)
        begins = np.array([windows[row].begin for row in rows], dtype=np.int64)[places]
        found.append((np.array(rows)[places], firsts + begins, lasts + begins, scores))
    return Spans(*(np.concatenate(column) for column in zip(*found, strict=True)))


def top_spans(starts: Scores, ends: Scores, width: int) -> tuple[Places, Places, Places, Scores]:
    """Find the best spans of each row, in any order.

    Returns rows, first tokens, last tokens and scores. `starts` is `[rows, tokens]`, `ends` `[rows,
    tokens + width]`, with minus infinity as padding. A span among the best `n` begins at one of the
    `n` starts whose own best span is highest, so only those are searched in full.
    """
    num_rows, size = starts.shape
    following = sliding_window_view(ends, width, axis=1)[:, :size]
    highest = starts + following.max(-1)
    count = min(NUM_CANDIDATES, size)
    begins = np.argpartition(highest, size - count, axis=1)[:, size - count :]
    every = np.arange(num_rows)[:, None]
    scores = (starts[every, begins][:, :, None] + following[every, begins]).reshape(num_rows, -1)
    count = min(NUM_CANDIDATES, scores.shape[1])
    best = np.argpartition(scores, -count, axis=1)[:, -count:]
    chosen = scores[every, best]
    is_there = np.isfinite(chosen)
    first = begins[every, best // width]
    places = np.broadcast_to(every, chosen.shape)
    return (
        places[is_there], first[is_there], (first + best % width)[is_there], chosen[is_there]
    )  # fmt: skip


def group_rows(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield groups of non-empty rows of similar size, largest first."""
    order = np.argsort(-np.asarray(sizes, dtype=np.int64), kind="stable")
    rows = [row for row in order.tolist() if sizes[row]]
    while rows:
        count = max(1, PADDED_LOGITS // sizes[rows[0]])
        yield rows[:count]
        rows = rows[count:]


def merge_windows(spans: Spans, owners: Places) -> Spans:
    """Select each question's best `NUM_CANDIDATES` spans without duplicates, the best first.

    `owners` maps rows to questions. Of equal scores the earlier start wins, then the shorter span.
    """
    spans = Spans(owners[spans.owners], spans.firsts, spans.lasts, spans.scores)
    spans = spans[np.lexsort((-spans.scores, spans.lasts, spans.firsts, spans.owners))]
    keys = np.stack([spans.owners, spans.firsts, spans.lasts])
    spans = spans[np.append(True, (keys[:, 1:] != keys[:, :-1]).any(0))[: keys.shape[1]]]
    spans = spans[np.lexsort((spans.lasts, spans.firsts, -spans.scores, spans.owners))]
    ranks = np.arange(len(spans.owners)) - np.searchsorted(spans.owners, spans.owners)
    return spans[ranks < NUM_CANDIDATES]


def locate(spans: Spans, offsets: NDArray[np.int32], null_score: float) -> SpanCandidates:
    """Convert token spans to characters of the context, leaving out empty ones.

    Byte-level BPE has tokens for the spaces between two words.
    """
    starts, stops = offsets[spans.firsts, 0], offsets[spans.lasts, 1]
    is_text = stops > starts
    return SpanCandidates(starts[is_text], stops[is_text], spans.scores[is_text], null_score)

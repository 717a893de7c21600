"""Search for a question's best answers: the spans whose start and end have the highest logits.

A question has one row of tokens for each window, an overlapping part of its passage, the context.
The best spans of all windows are merged.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.question_windows import CLS_POSITION, ContextWindow, offsets_of
from bertsmith.tasks.probabilities import softmax64

NUM_CANDIDATES = 20
"""Number of a question's best spans over which probabilities are computed, as in BERT's released
code."""
PADDED_LOGITS = 1 << 18
"""Largest number of logits, padding included, in a group of windows that are searched together.
So many take 1 MB in fp32, which fits into the processor's cache."""

Scores = NDArray[np.float32]
"""Logits, or sums of two logits."""
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class SpanCandidates:
    """One question's best spans, best first, and the no-answer score.

    A span is `context[start:stop]`; `starts` and `stops` are int64 `[candidates]`. `scores` are the
    sums of the start's and the end's logit, fp32 `[candidates]`. All three are empty if the context
    has no token. `null_score` is the sum of the two logits of [CLS], which stands for "no answer".
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
        # Softmax needs at least one number, so without candidates the null score is always taken.
        null = [self.null_score] if with_null or not len(self.scores) else []
        return softmax64(np.concatenate([self.scores, null]))[: len(self.scores)]


def best_answers(
    logits: Sequence[Scores], encoded: EncodedExamples, max_answer_length: int
) -> list[SpanCandidates]:
    """Find the best spans of each question, of at most `max_answer_length` tokens.

    `logits` holds an array for each row (window), fp32 `[tokens, 2]`: each token's logits as the
    start and as the end. `encoded.alignment` says which tokens of the context each row holds.
    """
    spans = _find_best_spans(logits, encoded.alignment, max_answer_length)
    spans = _merge_windows(spans, encoded.example_of_row())
    # The spans of question i, sorted by question, begin at the index bounds[i].
    bounds = np.searchsorted(spans.owners, np.arange(len(encoded) + 1)).tolist()
    null_scores = _null_scores(logits, encoded.starts)
    return [
        _locate(spans[slice(first, stop)], offsets_of(encoded, question), null_scores[question])
        for question, (first, stop) in enumerate(pairwise(bounds))
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

    def __getitem__(self, index: Any) -> "_Spans":
        """Select spans by an index of numpy: a slice, a mask or an array of indices."""
        return _Spans(self.owners[index], self.firsts[index], self.lasts[index], self.scores[index])

    @classmethod
    def joined(cls, parts: Sequence["_Spans"]) -> "_Spans":
        # The empty arrays are for the case without parts, which numpy cannot concatenate.
        no_indices = np.empty(0, dtype=np.int64)
        no_scores = np.empty(0, dtype=np.float32)
        return cls(
            np.concatenate([no_indices, *(part.owners for part in parts)]),
            np.concatenate([no_indices, *(part.firsts for part in parts)]),
            np.concatenate([no_indices, *(part.lasts for part in parts)]),
            np.concatenate([no_scores, *(part.scores for part in parts)]),
        )


def _null_scores(logits: Sequence[Scores], first_rows: Indices) -> list[float]:
    """Compute each question's no-answer score, the lowest of its windows.

    Question `i` has the rows from `first_rows[i]` up to `first_rows[i + 1]`. The windows without
    the answer have high no-answer scores even if the question has an answer, so the lowest score
    decides.
    """
    window_scores = np.array([row[CLS_POSITION].sum() for row in logits], dtype=np.float32)
    return np.minimum.reduceat(window_scores, first_rows[:-1]).tolist()


def _find_best_spans(
    logits: Sequence[Scores], windows: Sequence[ContextWindow], max_answer_length: int
) -> _Spans:
    """Find the best spans of each row, at most `NUM_CANDIDATES`."""
    spans_of_groups = []
    for rows in _group_rows([window.size for window in windows]):
        size = windows[rows[0]].size  # the largest of the group
        width = min(max_answer_length, size)  # the largest number of tokens of a span
        # Padded with minus infinity: a span that begins or ends in the padding is never chosen.
        start_logits = np.full((len(rows), size), -np.inf, dtype=np.float32)
        end_logits = np.full((len(rows), size + width), -np.inf, dtype=np.float32)
        for index, row in enumerate(rows):
            window = windows[row]
            # Without the tokens of the question, and without special tokens.
            context_logits = logits[row][window.first_in_row :][: window.size]
            start_logits[index, : window.size] = context_logits[:, 0]
            end_logits[index, : window.size] = context_logits[:, 1]
        spans = _top_spans(start_logits, end_logits, width)
        # The index, in the context, of each window's first token.
        first_tokens = np.array([windows[row].first_in_context for row in rows], dtype=np.int64)
        first_token_of_span = first_tokens[spans.owners]
        spans_of_groups.append(
            _Spans(
                owners=np.array(rows)[spans.owners],
                firsts=spans.firsts + first_token_of_span,
                lasts=spans.lasts + first_token_of_span,
                scores=spans.scores,
            )
        )
    return _Spans.joined(spans_of_groups)


def _top_spans(start_logits: Scores, end_logits: Scores, width: int) -> _Spans:
    """Find the best spans of each row, in any order, of at most `width` tokens.

    `start_logits` is `[rows, tokens]`, `end_logits` `[rows, tokens + width]`, with minus infinity
    as padding. Each of the best `n` spans begins at one of the `n` starts whose best span scores
    highest, so only spans from these starts are compared.
    """
    num_rows, size = start_logits.shape
    # [rows, tokens, width]: the end logits at and after each start
    ends_of_start = sliding_window_view(end_logits, width, axis=1)[:, :size]
    best_of_start = start_logits + ends_of_start.max(-1)
    num_starts = min(NUM_CANDIDATES, size)
    starts = np.argpartition(best_of_start, -num_starts, axis=1)[:, -num_starts:]
    row_index = np.arange(num_rows)[:, None]
    scores = start_logits[row_index, starts][:, :, None] + ends_of_start[row_index, starts]
    scores = scores.reshape(num_rows, -1)  # [rows, starts * width]
    num_spans = min(NUM_CANDIDATES, scores.shape[1])
    best = np.argpartition(scores, -num_spans, axis=1)[:, -num_spans:]
    best_scores = scores[row_index, best]
    is_span = np.isfinite(best_scores)  # not padding
    # An index in `best` is the index of the start, times `width`, plus the number of tokens after
    # the first one.
    firsts = starts[row_index, best // width]
    lasts = firsts + best % width
    rows = np.broadcast_to(row_index, best_scores.shape)
    return _Spans(rows[is_span], firsts[is_span], lasts[is_span], best_scores[is_span])


def _group_rows(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield groups of indices of rows of similar size, largest first.

    A group has about `PADDED_LOGITS` logits. Rows of size 0 are left out.
    """
    order = np.argsort(-np.asarray(sizes, dtype=np.int64), kind="stable")
    rows = [row for row in order.tolist() if sizes[row]]
    while rows:
        count = max(1, PADDED_LOGITS // sizes[rows[0]])
        yield rows[:count]
        rows = rows[count:]


def _merge_windows(spans: _Spans, question_of_row: Indices) -> _Spans:
    """Select each question's best `NUM_CANDIDATES` spans without duplicates, the best first.

    Windows overlap, so a span may be in two of them. `question_of_row` is int64 `[rows]`. Of equal
    scores the earlier start wins, then the shorter span.
    """
    spans = _Spans(question_of_row[spans.owners], spans.firsts, spans.lasts, spans.scores)
    spans = spans[np.lexsort((-spans.scores, spans.lasts, spans.firsts, spans.owners))]
    # Equal spans are now neighbours: the first of them, which has the best score, is kept.
    keys = np.stack([spans.owners, spans.firsts, spans.lasts])
    is_new = np.ones(keys.shape[1], dtype=bool)
    is_new[1:] = (keys[:, 1:] != keys[:, :-1]).any(0)
    spans = spans[is_new]
    spans = spans[np.lexsort((spans.lasts, spans.firsts, -spans.scores, spans.owners))]
    # A span's rank among those of its question: its index less that of the question's first span.
    ranks = np.arange(len(spans.owners)) - np.searchsorted(spans.owners, spans.owners)
    return spans[ranks < NUM_CANDIDATES]


def _locate(spans: _Spans, offsets: NDArray[np.int32], null_score: float) -> SpanCandidates:
    """Convert token spans to characters of the context, leaving out empty ones.

    `offsets` has the first character of each token of the context and one past its last, int32
    `[tokens, 2]`. A span is empty if its tokens are only white space, for which byte-level BPE has
    tokens.
    """
    starts, stops = offsets[spans.firsts, 0], offsets[spans.lasts, 1]
    is_text = stops > starts
    return SpanCandidates(starts[is_text], stops[is_text], spans.scores[is_text], null_score)

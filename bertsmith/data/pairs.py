"""Where rows take their text from: text bounds go in, token ranges and labels come out.

Pairs for next sentence and sentence order prediction, windows of one document, and passages that
go on from one document into the next.

Every function works on whole vectors of rows and is pure given its generator, so a row of a run
can be computed at any time from its number alone. Segments are filled as the released builder
(`create_pretraining_data.py`) fills them, with three differences that a reader may ask about:

- An anchor is the middle of its chunk, slid inside its document, not its first sentence: short
  documents then fill their rows, and their first sentences are not seen less than their last.
- The label is drawn before the chunk. A chunk of one sentence reaches for a neighbour where a
  continuation was asked for, so both labels stay equally frequent; only documents of a single
  sentence have no continuation to give.
- A random segment is as long as the continuation it replaces would have been, and comes from a
  random token rather than a random document, so that document size tells nothing and length
  little: a classifier that sees the two lengths alone is right for 50 % of rows of 128 tokens, 52 %
  at 64 and 55 % at 32, where sentences often fill a whole segment.

Pairs for sentence order (Lan et al. 2020, section 3.1) are those with a true continuation, in half
of which the two segments change places; what is too long is cut after that, as in ALBERT's
released code. Two differences:

- Chunks are gathered forwards or backwards by a fair coin. Without it the longer segment is the
  later one in 57 % of rows of 32 tokens in English and 61 % in Chinese Wikipedia; with it, the two
  lengths tell a classifier the order of 50 % and 52 %.
- The released code calls the last sentence of a document, where it is a chunk by itself, with a
  random segment after it "swapped". Here such a chunk reaches for a neighbour, and a document of a
  single sentence gives a row of one segment without a label.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np

from bertsmith.data.encoded_examples import IGNORE_INDEX

IS_NEXT = 0
IS_RANDOM = 1
IN_ORDER = 0
IS_SWAPPED = 1


class TextBounds(Protocol):
    """Where sentences and documents of a text begin; a `Corpus` is one.

    `sentence_starts` holds token offsets, int64 `[sentences + 1]`; `document_starts` holds
    sentence offsets, int64 `[documents + 1]`. The last entry of each is the end of the text.
    """

    @property
    def sentence_starts(self) -> np.ndarray: ...

    @property
    def document_starts(self) -> np.ndarray: ...


@dataclass(frozen=True)
class Segments:
    """The token ranges of rows, row by row, each inside one document and none of them empty.

    `starts`, `ends` and `rows`, the row of each, are int64 `[segments]`; `labels` int64 `[rows]`.
    Two ranges of a row are a pair, or with `are_pairs` false parts of a text that goes on.
    """

    starts: np.ndarray
    ends: np.ndarray
    rows: np.ndarray
    labels: np.ndarray
    are_pairs: bool

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each range, int64 `[segments]`."""
        lengths: np.ndarray = self.ends - self.starts
        return lengths

    @cached_property
    def is_first(self) -> np.ndarray:
        """Which ranges begin a row, bool `[segments]`."""
        return np.diff(self.rows, prepend=-1) > 0

    def of_rows(self) -> list[list[tuple[int, int]]]:
        """Start and end of every range, row by row."""
        ranges = list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))
        bounds = [*np.flatnonzero(self.is_first).tolist(), len(ranges)]
        return [ranges[start:end] for start, end in pairwise(bounds)]


@dataclass(frozen=True)
class Pairs:
    """Two token ranges per row and what is to be said of them; all int64 `[rows]`.

    A single segment is a pair whose second range is empty.
    """

    a_starts: np.ndarray
    a_ends: np.ndarray
    b_starts: np.ndarray
    b_ends: np.ndarray
    labels: np.ndarray

    def spans(self) -> Iterator[tuple[int, int, int, int]]:
        """A's start and end and B's start and end, row by row."""
        columns = (self.a_starts, self.a_ends, self.b_starts, self.b_ends)
        return zip(*(column.tolist() for column in columns), strict=True)

    def segments(self) -> Segments:
        """The ranges one after another, without the empty ones."""
        starts = np.stack([self.a_starts, self.b_starts], axis=1).ravel()
        ends = np.stack([self.a_ends, self.b_ends], axis=1).ravel()
        rows = np.repeat(np.arange(len(self.labels)), 2)
        kept = ends > starts
        return Segments(starts[kept], ends[kept], rows[kept], self.labels, are_pairs=True)


@dataclass(frozen=True)
class _Chunks:
    """Runs of whole sentences inside one document each; all int64 `[rows]`."""

    document_first: np.ndarray
    document_end: np.ndarray
    first: np.ndarray
    end: np.ndarray


class Anchors:
    """The places in the text that rows are built around: a new order and a new shift every epoch.

    One epoch has an anchor about every `spacing` tokens. Row `r` of a run is anchor `r mod K` of
    epoch `r // K` in an order keyed by (`seed`, epoch), so any row can be asked for at any time.
    With `moving` false the anchors of every epoch are at the same places.
    """

    def __init__(self, num_tokens: int, spacing: int, seed: int, *, moving: bool = True) -> None:
        self.num_tokens = num_tokens
        self.num_anchors = max(1, round(num_tokens / spacing))
        self._seed = seed
        self._moving = moving
        self._epochs: dict[int, np.ndarray] = {}

    def positions(self, first_row: int, num_rows: int) -> np.ndarray:
        """Token offsets of rows `first_row` to `first_row + num_rows`, int64 `[num_rows]`."""
        epochs = range(
            first_row // self.num_anchors, (first_row + num_rows - 1) // self.num_anchors + 1
        )
        # Kept by a name of its own: another thread may ask for other rows at the same time.
        self._epochs = orders = {epoch: self._epoch(epoch) for epoch in epochs}
        skipped = first_row - epochs.start * self.num_anchors
        return np.concatenate(list(orders.values()))[skipped : skipped + num_rows]

    def _epoch(self, epoch: int) -> np.ndarray:
        if epoch in self._epochs:
            return self._epochs[epoch]
        rng = np.random.default_rng([self._seed, epoch])
        shift = rng.random() if self._moving else 0.5
        places = (rng.permutation(self.num_anchors) + shift) * (self.num_tokens / self.num_anchors)
        return np.minimum(places.astype(np.int64), self.num_tokens - 1)


def draw_targets(
    num_rows: int, longest: int, short_seq_prob: float, rng: np.random.Generator
) -> np.ndarray:
    """How many tokens each row aims for: `longest`, or for a share of them 2 to `longest`."""
    is_short = rng.random(num_rows) < short_seq_prob
    return np.where(is_short, rng.integers(2, longest + 1, num_rows), longest)


def draw_pairs(
    bounds: TextBounds, anchors: np.ndarray, targets: np.ndarray, rng: np.random.Generator
) -> Pairs:
    """Two segments per anchor, together at most `targets` tokens, and a fair coin for the label.

    The text must have two documents or more, none of them empty. Every row consumes the same
    draws whatever its label.
    """
    starts = bounds.sentence_starts
    chunks = _gather_sentences(bounds, anchors, targets)
    wants_next = rng.random(len(anchors)) < 0.5
    chunks = _reach_for_neighbour(chunks, wants_next)
    num_sentences = chunks.end - chunks.first
    is_next = wants_next & (num_sentences > 1)
    a_end = chunks.first + rng.integers(1, np.maximum(num_sentences, 2))
    len_a = starts[a_end] - starts[chunks.first]
    wanted_b = _continuation_length(bounds, chunks, targets) - len_a
    elsewhere = _other_document_tokens(bounds, chunks, rng)
    random_b = _gather_sentences(bounds, elsewhere, np.maximum(wanted_b, 1))
    b_first = np.where(is_next, a_end, random_b.first)
    b_end = np.where(is_next, chunks.end, random_b.end)
    kept_a, kept_b = pair_budget(len_a, starts[b_end] - starts[b_first], targets)
    a_starts, a_ends = _trim(starts[chunks.first], starts[a_end], kept_a, rng)
    b_starts, b_ends = _trim(starts[b_first], starts[b_end], kept_b, rng)
    return Pairs(a_starts, a_ends, b_starts, b_ends, np.where(is_next, IS_NEXT, IS_RANDOM))


def draw_ordered_pairs(
    bounds: TextBounds, anchors: np.ndarray, targets: np.ndarray, rng: np.random.Generator
) -> Pairs:
    """Two consecutive segments per anchor, together at most `targets` tokens, half of them swapped.

    The label is `IS_SWAPPED` where the second segment stands first. A document of one sentence
    gives that alone, and `IGNORE_INDEX` for a label.
    """
    starts = bounds.sentence_starts
    is_mirrored = rng.random(len(anchors)) < 0.5
    chunks = _gather_either_way(bounds, anchors, targets, is_mirrored)
    chunks = _reach_for_neighbour(chunks, np.ones(len(anchors), dtype=bool), is_mirrored)
    num_sentences = chunks.end - chunks.first
    middle = chunks.first + rng.integers(1, np.maximum(num_sentences, 2))
    is_alone = num_sentences == 1
    is_swapped = (rng.random(len(anchors)) < 0.5) & ~is_alone
    bounds_of = [starts[chunks.first], starts[middle], starts[chunks.end]]
    a_starts, a_ends, b_starts, b_ends = (
        np.where(is_swapped, bounds_of[swapped], bounds_of[straight])
        for straight, swapped in ((0, 1), (1, 2), (1, 0), (2, 1))
    )
    kept_a, kept_b = pair_budget(a_ends - a_starts, b_ends - b_starts, targets)
    labels = np.where(is_alone, IGNORE_INDEX, np.where(is_swapped, IS_SWAPPED, IN_ORDER))
    return Pairs(
        *_trim(a_starts, a_ends, kept_a, rng), *_trim(b_starts, b_ends, kept_b, rng), labels
    )


def draw_windows(bounds: TextBounds, anchors: np.ndarray, length: int) -> Pairs:
    """One segment per anchor: `length` tokens around it, or the whole of a shorter document."""
    starts = bounds.sentence_starts
    first, end = _document_of(bounds, anchors)
    window_starts = _slide_inside(anchors, length, starts[first], starts[end])
    window_ends = np.minimum(window_starts + length, starts[end])
    labels = np.full(len(anchors), IS_NEXT)
    return Pairs(window_starts, window_ends, window_ends, window_ends, labels)


def draw_passages(bounds: TextBounds, anchors: np.ndarray, length: int) -> Segments:
    """Whole sentences around each anchor, `length` tokens at most, also across document ends.

    Of every document end that a passage crosses one token is kept free, for the separator there.
    A sentence that is longer than that alone gives `length` tokens of its own. RoBERTa's
    FULL-SENTENCES (Liu et al. 2019, section 4.2).
    """
    starts = bounds.sentence_starts
    begin = _slide_inside(anchors, length, np.zeros_like(anchors), starts[-1])
    first = np.searchsorted(starts, begin, side="right") - 1
    is_long = starts[first + 1] - starts[first] > length
    begin = np.where(is_long, np.minimum(begin, starts[first + 1] - length), starts[first])
    end = np.searchsorted(starts, begin + length, side="right") - 1
    document = _documents(bounds, first)
    num_crossed = _documents(bounds, np.maximum(end - 1, first)) - document
    end = np.searchsorted(starts, begin + length - num_crossed, side="right") - 1
    ends = np.where(end > first, starts[end], begin + length)
    return _divide_at_documents(bounds, begin, ends, document)


def _divide_at_documents(
    bounds: TextBounds, begins: np.ndarray, ends: np.ndarray, documents: np.ndarray
) -> Segments:
    """Token ranges that begin in `documents`, cut wherever a document ends."""
    document_starts = bounds.sentence_starts[bounds.document_starts]
    num_parts = np.searchsorted(document_starts, ends, side="left") - documents
    rows = np.repeat(np.arange(len(begins)), num_parts)
    part = np.arange(len(rows)) - np.repeat(np.cumsum(num_parts) - num_parts, num_parts)
    document = documents[rows] + part
    return Segments(
        np.maximum(begins[rows], document_starts[document]),
        np.minimum(ends[rows], document_starts[document + 1]),
        rows,
        np.full(len(begins), IGNORE_INDEX),
        are_pairs=False,
    )


def pair_budget(
    len_a: np.ndarray, len_b: np.ndarray, max_tokens: np.ndarray | int
) -> tuple[np.ndarray, np.ndarray]:
    """How many tokens of each segment survive when a pair is too long.

    The same result as taking tokens one by one from the longer segment, and from B on a tie.

    >>> [int(kept) for kept in pair_budget(np.int64(5), np.int64(300), 125)]
    [5, 120]
    """
    half = np.asarray(max_tokens) // 2
    kept_a = np.minimum(len_a, np.maximum(max_tokens - half, max_tokens - len_b))
    kept_b = np.minimum(len_b, np.maximum(half, max_tokens - len_a))
    return kept_a, kept_b


def single_sentence_share(bounds: TextBounds) -> float:
    """The share of tokens in documents of one sentence: they have no next one, and no order."""
    sentences = np.diff(bounds.document_starts)
    tokens = np.diff(bounds.sentence_starts[bounds.document_starts])
    return float(tokens[sentences == 1].sum() / tokens.sum())


def _documents(bounds: TextBounds, sentences: np.ndarray) -> np.ndarray:
    """The number of the document that each sentence belongs to."""
    numbers: np.ndarray = np.searchsorted(bounds.document_starts, sentences, side="right") - 1
    return numbers


def _document_of(bounds: TextBounds, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First sentence of the document around each token, and the first after it."""
    sentence = np.searchsorted(bounds.sentence_starts, positions, side="right") - 1
    document = _documents(bounds, sentence)
    return bounds.document_starts[document], bounds.document_starts[document + 1]


def _slide_inside(
    middles: np.ndarray, lengths: np.ndarray | int, firsts: np.ndarray, ends: np.ndarray
) -> np.ndarray:
    """Start of the range around each middle, moved to lie within [first, end) if it fits there."""
    begins = np.minimum(middles - np.asarray(lengths) // 2, ends - lengths)
    slid: np.ndarray = np.maximum(firsts, begins)
    return slid


def _gather_sentences(bounds: TextBounds, middles: np.ndarray, targets: np.ndarray) -> _Chunks:
    """Whole sentences around each middle: until `targets` tokens, or to the document's end."""
    starts = bounds.sentence_starts
    document_first, document_end = _document_of(bounds, middles)
    begin = _slide_inside(middles, targets, starts[document_first], starts[document_end])
    first = np.searchsorted(starts, begin, side="right") - 1
    end = np.searchsorted(starts, starts[first] + targets, side="left")
    return _Chunks(document_first, document_end, first, np.minimum(end, document_end))


def _gather_either_way(
    bounds: TextBounds, middles: np.ndarray, targets: np.ndarray, is_mirrored: np.ndarray
) -> _Chunks:
    """Whole sentences around each middle, in mirrored rows gathered from their end backwards.

    The sentence that reaches the target is a long one more often than not. In half of the rows it
    is the first, so that lengths do not tell which segment was last.
    """
    starts = bounds.sentence_starts
    forward = _gather_sentences(bounds, middles, targets)
    document_start = starts[forward.document_first]
    begin = _slide_inside(middles, targets, document_start, starts[forward.document_end])
    last = np.minimum(begin + targets, starts[forward.document_end]) - 1
    end = np.searchsorted(starts, last, side="right")
    first = np.searchsorted(starts, starts[end] - targets, side="right") - 1
    return _Chunks(
        forward.document_first,
        forward.document_end,
        np.where(is_mirrored, np.maximum(first, forward.document_first), forward.first),
        np.where(is_mirrored, end, forward.end),
    )


def _reach_for_neighbour(
    chunks: _Chunks, wanted: np.ndarray, prefers_next: np.ndarray | bool = False
) -> _Chunks:
    """Give chunks of one sentence the sentence before, or at a document's start the one after.

    Where `prefers_next`, the one after, or at a document's end the one before.
    """
    lacks = wanted & (chunks.end - chunks.first == 1)
    can_go_back = chunks.first > chunks.document_first
    goes_back = lacks & can_go_back & ~(prefers_next & (chunks.end < chunks.document_end))
    first = chunks.first - goes_back
    end = np.minimum(chunks.end + (lacks & ~goes_back), chunks.document_end)
    return _Chunks(chunks.document_first, chunks.document_end, first, end)


def _continuation_length(bounds: TextBounds, chunks: _Chunks, targets: np.ndarray) -> np.ndarray:
    """Tokens that A and its true continuation would have: the target, or a short document."""
    length = bounds.sentence_starts[chunks.end] - bounds.sentence_starts[chunks.first]
    is_alone = chunks.document_end - chunks.document_first == 1
    return np.where(is_alone, targets, np.minimum(targets, length))


def _other_document_tokens(
    bounds: TextBounds, chunks: _Chunks, rng: np.random.Generator
) -> np.ndarray:
    """A token of any other document for each row, all of them equally likely."""
    own_start = bounds.sentence_starts[chunks.document_first]
    own_length = bounds.sentence_starts[chunks.document_end] - own_start
    place = rng.integers(0, bounds.sentence_starts[-1] - own_length)
    elsewhere: np.ndarray = np.where(place < own_start, place, place + own_length)
    return elsewhere


def _trim(
    starts: np.ndarray, ends: np.ndarray, kept: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Cut ranges down to `kept` tokens, each token from the front or the back by a fair coin."""
    from_front = rng.binomial(ends - starts - kept, 0.5)
    return starts + from_front, starts + from_front + kept

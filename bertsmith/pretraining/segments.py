"""Draw the token spans of pre-training rows, with next-sentence and sentence-order labels.

A row, one training sequence, is built around an *anchor*, a token offset in the text of the corpus.
Every function computes many rows at once, with arrays that have an element for each row. Its result
depends on its arguments and generator alone, so that any row of a run can be computed from its
number. Of a corpus, `sentence_starts` are the token offsets at which sentences begin, and
`document_starts` the numbers of the sentences with which documents begin. Both have one entry more,
for the end.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from bertsmith.data.corpus import Corpus
from bertsmith.data.encoded_examples import IGNORE_INDEX

# Labels of next sentence prediction, as in BERT's released code
IS_NEXT = 0
IS_RANDOM = 1
# Labels of sentence order prediction
IN_ORDER = 0
IS_SWAPPED = 1
HAS_PARTNER = 0
"""Label of `halves_around` for rows of a contrastive pair; those without one have IGNORE_INDEX."""


@dataclass(frozen=True)
class Segments:
    """Token spans of rows, each inside one document and not empty.

    `starts`, `ends` and `rows` (the row of each span) are int64 `[segments]`; `labels` int64
    `[rows]`. With `are_pairs` the spans of a row are segments A and B, otherwise consecutive parts
    of a text.
    """

    starts: np.ndarray
    ends: np.ndarray
    rows: np.ndarray
    labels: np.ndarray
    are_pairs: bool

    @cached_property
    def lengths(self) -> np.ndarray:
        """The tokens of each span, int64 `[segments]`."""
        return self.ends - self.starts

    @cached_property
    def is_first(self) -> np.ndarray:
        """A mask of the spans that begin a row, bool `[segments]`."""
        return np.diff(self.rows, prepend=-1) > 0

    def of_rows(self) -> list[list[tuple[int, int]]]:
        """List start and end of every span, row by row."""
        ranges = list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))
        row_starts = [*np.flatnonzero(self.is_first).tolist(), len(ranges)]
        return [ranges[start:end] for start, end in pairwise(row_starts)]


@dataclass(frozen=True)
class SegmentPairs:
    """Spans of segments A and B, and labels; all int64 `[rows]`.

    A row of a single segment has an empty span B.
    """

    a_starts: np.ndarray
    a_ends: np.ndarray
    b_starts: np.ndarray
    b_ends: np.ndarray
    labels: np.ndarray

    def segments(self) -> Segments:
        """Convert to spans in order, without empty ones."""
        starts = np.stack([self.a_starts, self.b_starts], axis=1).ravel()
        ends = np.stack([self.a_ends, self.b_ends], axis=1).ravel()
        rows = np.repeat(np.arange(len(self.labels)), 2)
        is_filled = ends > starts
        return Segments(
            starts[is_filled], ends[is_filled], rows[is_filled], self.labels, are_pairs=True
        )


@dataclass(frozen=True)
class _Chunks:
    """For each row some neighbouring whole sentences of one document.

    The fields are numbers of sentences, int64 `[rows]`: the document has those from
    `document_first` to before `document_end`, and the chunk those from `first` to before `end`.
    """

    document_first: np.ndarray
    document_end: np.ndarray
    first: np.ndarray
    end: np.ndarray


class Anchors:
    """Token positions around which rows are built, reshuffled every epoch.

    An epoch has an anchor about every `spacing` tokens. Anchor `a` of a run is number `a mod
    num_anchors` of epoch `a // num_anchors`, in an order that depends on (`seed`, epoch) alone, so
    that any row can be computed at any time. The positions of an epoch are shifted by a random part
    of the spacing, or with `moving` false always by half of it.
    """

    def __init__(self, num_tokens: int, spacing: int, seed: int, *, moving: bool = True) -> None:
        self.num_tokens = num_tokens
        self.num_anchors = max(1, round(num_tokens / spacing))
        self._seed = seed
        self._moving = moving
        self._epochs: dict[int, np.ndarray] = {}

    def positions(self, first: int, count: int) -> np.ndarray:
        """Return the token offsets of `count` anchors from the `first`, int64 `[count]`."""
        epochs = range(first // self.num_anchors, (first + count - 1) // self.num_anchors + 1)
        # Orders of earlier epochs are dropped. Another thread may assign to `_epochs` meanwhile, so
        # the local name is read below, and `_epoch` reads the attribute once.
        self._epochs = orders = {epoch: self._epoch(epoch) for epoch in epochs}
        skipped = first - epochs.start * self.num_anchors
        return np.concatenate(list(orders.values()))[skipped : skipped + count]

    def _epoch(self, epoch: int) -> np.ndarray:
        """Return the token offsets of an epoch's anchors in their order, int64 `[num_anchors]`."""
        order = self._epochs.get(epoch)
        if order is not None:
            return order
        rng = np.random.default_rng([self._seed, epoch])
        shift = rng.random() if self._moving else 0.5
        offsets = (rng.permutation(self.num_anchors) + shift) * (self.num_tokens / self.num_anchors)
        return np.minimum(offsets.astype(np.int64), self.num_tokens - 1)


def draw_lengths(
    num_rows: int, longest: int, short_seq_prob: float, rng: np.random.Generator
) -> np.ndarray:
    """Draw lengths in tokens, int64 `[num_rows]`: `longest`, or for some rows 2 to `longest`.

    `short_seq_prob` is the probability of a drawn length, 0.1 in BERT's released code.
    """
    is_short = rng.random(num_rows) < short_seq_prob
    return np.where(is_short, rng.integers(2, longest + 1, num_rows), longest)


def draw_pairs(
    corpus: Corpus, anchors: np.ndarray, max_lengths: np.ndarray, rng: np.random.Generator
) -> SegmentPairs:
    """Draw segments A and B per anchor for next-sentence prediction.

    This is Devlin et al. 2019, section 3.1, task 2. The label is `IS_NEXT` or `IS_RANDOM` by a fair
    coin, but always `IS_RANDOM` if the document has one sentence. The text must have two documents
    or more, none of them empty. Segments are filled as in the released
    `create_pretraining_data.py`, with differences that keep the labels balanced and the lengths
    uninformative (docs/architecture.md, "Segment pairs").

    Args:
        anchors: token offsets, int64 `[rows]`.
        max_lengths: the most tokens of both segments together, int64 `[rows]`.
    """
    starts = corpus.sentence_starts
    chunks = _gather_sentences(corpus, anchors, max_lengths)
    wants_next = rng.random(len(anchors)) < 0.5
    chunks = _extend_to_neighbour(chunks, wants_next)
    num_sentences = chunks.end - chunks.first
    is_next = wants_next & (num_sentences > 1)
    # A has 1 to all but one of the sentences, and the only one of a chunk of one sentence.
    a_end = chunks.first + rng.integers(1, np.maximum(num_sentences, 2))
    len_a = starts[a_end] - starts[chunks.first]
    # A random segment is as long as the true continuation, so that lengths tell nothing. Where A
    # leaves no room, or is the whole chunk, this length is 0 or less, and one sentence is taken.
    continuation_lengths = _pair_length(corpus, chunks, max_lengths) - len_a
    other_tokens = _other_document_tokens(corpus, chunks, rng)
    random_b = _gather_sentences(corpus, other_tokens, np.maximum(continuation_lengths, 1))
    b_first = np.where(is_next, a_end, random_b.first)
    b_end = np.where(is_next, chunks.end, random_b.end)
    kept_a, kept_b = pair_budget(len_a, starts[b_end] - starts[b_first], max_lengths)
    a_starts, a_ends = _trim(starts[chunks.first], starts[a_end], kept_a, rng)
    b_starts, b_ends = _trim(starts[b_first], starts[b_end], kept_b, rng)
    return SegmentPairs(a_starts, a_ends, b_starts, b_ends, np.where(is_next, IS_NEXT, IS_RANDOM))


def draw_ordered_pairs(
    corpus: Corpus, anchors: np.ndarray, max_lengths: np.ndarray, rng: np.random.Generator
) -> SegmentPairs:
    """Draw two consecutive segments per anchor for sentence order prediction, half of them swapped.

    The segments are cut after the swap, as in ALBERT's released code (Lan et al. 2020, section 3.1;
    differences: docs/architecture.md, "Segment pairs"). The label is `IS_SWAPPED` where the second
    segment is first. It is `IGNORE_INDEX` for a document of one sentence, which gives one segment.

    Args:
        anchors: token offsets, int64 `[rows]`.
        max_lengths: the most tokens of both segments together, int64 `[rows]`.
    """
    starts = corpus.sentence_starts
    is_backward = rng.random(len(anchors)) < 0.5
    chunks = _gather_either_way(corpus, anchors, max_lengths, is_backward)
    # A sentence that reaches the length alone is often long, and is extended by a neighbour here.
    # Where sentences are gathered backwards, it becomes the first segment, else the second one, as
    # in `_gather_either_way`.
    may_grow = np.ones(len(anchors), dtype=bool)
    chunks = _extend_to_neighbour(chunks, may_grow, prefers_next=is_backward)
    num_sentences = chunks.end - chunks.first
    middle = chunks.first + rng.integers(1, np.maximum(num_sentences, 2))
    is_single_sentence = num_sentences == 1
    is_swapped = (rng.random(len(anchors)) < 0.5) & ~is_single_sentence
    begin, cut, end = starts[chunks.first], starts[middle], starts[chunks.end]
    a_starts = np.where(is_swapped, cut, begin)
    a_ends = np.where(is_swapped, end, cut)
    b_starts = np.where(is_swapped, begin, cut)
    b_ends = np.where(is_swapped, cut, end)
    kept_a, kept_b = pair_budget(a_ends - a_starts, b_ends - b_starts, max_lengths)
    labels = np.where(is_single_sentence, IGNORE_INDEX, np.where(is_swapped, IS_SWAPPED, IN_ORDER))
    return SegmentPairs(
        *_trim(a_starts, a_ends, kept_a, rng), *_trim(b_starts, b_ends, kept_b, rng), labels
    )


def windows_around(corpus: Corpus, anchors: np.ndarray, length: int) -> SegmentPairs:
    """Return `length` tokens around each anchor, or a whole shorter document.

    `anchors` are token offsets, int64 `[rows]`. Span A is the window, span B is empty, and labels
    are `IGNORE_INDEX`.
    """
    starts = corpus.sentence_starts
    first, end = _document_of(corpus, anchors)
    window_starts = _slide_inside(anchors, length, starts[first], starts[end])
    window_ends = np.minimum(window_starts + length, starts[end])
    labels = np.full(len(anchors), IGNORE_INDEX)
    return SegmentPairs(window_starts, window_ends, window_ends, window_ends, labels)


def halves_around(corpus: Corpus, anchors: np.ndarray, length: int) -> Segments:
    """Return two rows per anchor: the text around it, cut in two between sentences.

    `anchors` are token offsets, int64 `[rows / 2]`. The halves have up to `length` tokens each. If
    the text around an anchor is a single sentence, it is extended by a neighbouring one. A document
    of one sentence is cut in its middle, and its rows have the label `IGNORE_INDEX`; all others
    have `HAS_PARTNER`.
    """
    starts = corpus.sentence_starts
    chunks = _gather_sentences(corpus, anchors, np.full(len(anchors), 2 * length))
    chunks = _extend_to_neighbour(chunks, np.ones(len(anchors), dtype=bool))
    begin, end = starts[chunks.first], starts[chunks.end]
    middle = (begin + end) // 2
    # The cut is before the sentence that begins nearest to the middle, but not the first one.
    after = np.searchsorted(starts, middle, side="right")
    before = after - 1
    nearest = np.where(starts[after] - middle < middle - starts[before], after, before)
    cut = np.clip(nearest, chunks.first + 1, np.maximum(chunks.end - 1, chunks.first + 1))
    is_single_sentence = chunks.end - chunks.first < 2
    middle = np.where(is_single_sentence, middle, starts[cut])
    first_begin = np.maximum(begin, middle - length)
    first_end = np.maximum(middle, begin + 1)  # not empty, even if the document has one token
    second_end = np.minimum(end, middle + length)
    labels = np.repeat(np.where(is_single_sentence, IGNORE_INDEX, HAS_PARTNER), 2)
    return Segments(
        np.stack([first_begin, middle], axis=1).ravel(),
        np.stack([first_end, second_end], axis=1).ravel(),
        np.arange(2 * len(anchors)),
        labels,
        are_pairs=False,
    )


def passages_around(corpus: Corpus, anchors: np.ndarray, length: int) -> Segments:
    """Return whole sentences around each anchor, at most `length` tokens, across documents.

    `anchors` are token offsets, int64 `[rows]`. One token is kept free for the separator at each
    document end inside a passage. A sentence longer than `length` fills a row with `length` of its
    tokens. This is RoBERTa's FULL-SENTENCES (Liu et al. 2019, section 4.2).
    """
    starts = corpus.sentence_starts
    begin = _slide_inside(anchors, length, np.zeros_like(anchors), starts[-1])
    first = np.searchsorted(starts, begin, side="right") - 1
    is_long = starts[first + 1] - starts[first] > length
    begin = np.where(is_long, np.minimum(begin, starts[first + 1] - length), starts[first])
    # The passage ends before sentence `end`, which is searched for twice. The sentences that fit
    # without separators show how many documents end in the passage. So many separators are needed,
    # and the second search leaves room for them.
    end = np.searchsorted(starts, begin + length, side="right") - 1
    document = _documents(corpus, first)
    num_separators = _documents(corpus, np.maximum(end - 1, first)) - document
    end = np.searchsorted(starts, begin + length - num_separators, side="right") - 1
    ends = np.where(end > first, starts[end], begin + length)
    return _divide_at_documents(corpus, begin, ends, document)


def _divide_at_documents(
    corpus: Corpus, begins: np.ndarray, ends: np.ndarray, documents: np.ndarray
) -> Segments:
    """Cut token spans wherever a document ends.

    `documents` are the numbers of the documents in which the spans begin, int64 `[rows]`.
    """
    document_starts = corpus.sentence_starts[corpus.document_starts]
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
    """Compute the lengths of both segments after cutting to `max_tokens`.

    The result equals that of removing tokens one by one from the longer segment, on a tie from B.

    >>> [int(kept) for kept in pair_budget(np.int64(5), np.int64(300), 125)]
    [5, 120]
    """
    half = np.asarray(max_tokens) // 2
    kept_a = np.minimum(len_a, np.maximum(max_tokens - half, max_tokens - len_b))
    kept_b = np.minimum(len_b, np.maximum(half, max_tokens - len_a))
    return kept_a, kept_b


def single_sentence_share(corpus: Corpus) -> float:
    """Compute the share, 0 to 1, of tokens in single-sentence documents.

    Such documents have no two consecutive sentences for NSP or SOP.
    """
    sentences = np.diff(corpus.document_starts)
    tokens = np.diff(corpus.sentence_starts[corpus.document_starts])
    return float(tokens[sentences == 1].sum() / tokens.sum())


def _documents(corpus: Corpus, sentences: np.ndarray) -> np.ndarray:
    """Return the number of each sentence's document, int64 of the shape of `sentences`."""
    return np.searchsorted(corpus.document_starts, sentences, side="right") - 1


def _document_of(corpus: Corpus, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first sentence of each token's document, and the one after its last."""
    sentence = np.searchsorted(corpus.sentence_starts, positions, side="right") - 1
    document = _documents(corpus, sentence)
    return corpus.document_starts[document], corpus.document_starts[document + 1]


def _slide_inside(
    middles: np.ndarray, lengths: np.ndarray | int, firsts: np.ndarray, ends: np.ndarray
) -> np.ndarray:
    """Return the starts of ranges of `lengths` around `middles`, slid to lie in [first, end).

    A range that is longer than [first, end) begins at `first`.
    """
    begins = np.minimum(middles - np.asarray(lengths) // 2, ends - lengths)
    return np.maximum(firsts, begins)


def _gather_sentences(corpus: Corpus, middles: np.ndarray, lengths: np.ndarray) -> _Chunks:
    """Gather sentences around each middle until they have `lengths` tokens or more.

    The last sentence is kept whole, so the gathered sentences may have more tokens together. In a
    short document they have fewer.
    """
    starts = corpus.sentence_starts
    document_first, document_end = _document_of(corpus, middles)
    begin = _slide_inside(middles, lengths, starts[document_first], starts[document_end])
    first = np.searchsorted(starts, begin, side="right") - 1
    end = np.searchsorted(starts, starts[first] + lengths, side="left")
    return _Chunks(document_first, document_end, first, np.minimum(end, document_end))


def _gather_either_way(
    corpus: Corpus, middles: np.ndarray, lengths: np.ndarray, is_backward: np.ndarray
) -> _Chunks:
    """Gather sentences forwards from a first one, or backwards from a last one if `is_backward`.

    The sentence with which the length is reached is more often long than short. Gathered forwards,
    it is always in the last segment; gathered backwards, in the first. With one direction alone,
    the lengths of the segments would reveal their order.
    """
    starts = corpus.sentence_starts
    forward = _gather_sentences(corpus, middles, lengths)
    document_start = starts[forward.document_first]
    begin = _slide_inside(middles, lengths, document_start, starts[forward.document_end])
    last = np.minimum(begin + lengths, starts[forward.document_end]) - 1
    end = np.searchsorted(starts, last, side="right")
    first = np.searchsorted(starts, starts[end] - lengths, side="right") - 1
    return _Chunks(
        forward.document_first,
        forward.document_end,
        np.where(is_backward, np.maximum(first, forward.document_first), forward.first),
        np.where(is_backward, end, forward.end),
    )


def _extend_to_neighbour(
    chunks: _Chunks, may_grow: np.ndarray, prefers_next: np.ndarray | bool = False
) -> _Chunks:
    """Extend chunks of one sentence by a neighbouring sentence, where `may_grow`.

    The neighbour is the previous sentence, or with `prefers_next` the next one. If the document has
    no sentence on this side, the neighbour is the one on the other side.
    """
    is_short = may_grow & (chunks.end - chunks.first == 1)
    can_go_back = chunks.first > chunks.document_first
    goes_back = is_short & can_go_back & ~(prefers_next & (chunks.end < chunks.document_end))
    first = chunks.first - goes_back
    end = np.minimum(chunks.end + (is_short & ~goes_back), chunks.document_end)
    return _Chunks(chunks.document_first, chunks.document_end, first, end)


def _pair_length(corpus: Corpus, chunks: _Chunks, max_lengths: np.ndarray) -> np.ndarray:
    """Count the tokens of A with its true continuation, at most `max_lengths`, int64 `[rows]`.

    In a short document the number is smaller. A document of one sentence has no continuation; for
    it, `max_lengths` is returned.
    """
    length = corpus.sentence_starts[chunks.end] - corpus.sentence_starts[chunks.first]
    is_single_sentence = chunks.document_end - chunks.document_first == 1
    return np.where(is_single_sentence, max_lengths, np.minimum(max_lengths, length))


def _other_document_tokens(corpus: Corpus, chunks: _Chunks, rng: np.random.Generator) -> np.ndarray:
    """Draw a token of another document for each row, uniformly."""
    own_start = corpus.sentence_starts[chunks.document_first]
    own_length = corpus.sentence_starts[chunks.document_end] - own_start
    token = rng.integers(0, corpus.sentence_starts[-1] - own_length)
    return np.where(token < own_start, token, token + own_length)


def _trim(
    starts: np.ndarray, ends: np.ndarray, num_kept: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Cut ranges to `num_kept` tokens, from either end by fair coins."""
    from_front = rng.binomial(ends - starts - num_kept, 0.5)
    return starts + from_front, starts + from_front + num_kept

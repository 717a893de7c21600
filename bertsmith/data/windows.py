"""Divide texts that are longer than a model reads into overlapping windows.

Of a pair, one text is divided into windows, and each row has a window of it beside the other text:
[CLS] A [SEP] window of B [SEP]. Tokens that still do not fit are cut and counted.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import EncodedTexts, encode_texts
from bertsmith.data.row_builder import RowBuilder
from bertsmith.data.windowing import Windowing
from bertsmith.errors import ConfigError, option


@dataclass(frozen=True)
class Window:
    """A row of tokens, int32 `[tokens]`, and the range of the windowed text that it shows.

    From index `first` on, the row holds the tokens `start` to `end` of the windowed text.
    """

    ids: NDArray[np.int32]
    type_ids: NDArray[np.int32]
    first: int
    start: int
    end: int


@dataclass(frozen=True)
class Windows:
    """All rows of a text or pair. `num_cut` of its tokens are in none of them."""

    rows: tuple[Window, ...]
    num_cut: int


def window_spans(length: int, max_length: int, stride: int) -> list[tuple[int, int]]:
    """Divide `length` tokens into ranges `(start, end)` of at most `max_length` tokens.

    Neighbouring ranges share `stride` tokens, which have this name in the tokenizers library, too.
    The last range may share more tokens with the one before, so that it is as long as the others
    and has as much context.

    >>> window_spans(10, max_length=5, stride=2)
    [(0, 5), (3, 8), (5, 10)]
    >>> window_spans(0, max_length=5, stride=2)
    [(0, 0)]

    Raises:
        ConfigError: `stride` repeats all of the window, so that none of its tokens is new.
    """
    if not 0 <= stride < max_length:
        raise ConfigError(
            f"{option('stride')}: found {stride}, but a window has room for {max_length} tokens; "
            f"allowed is 0 to {max_length - 1}."
        )
    if length <= max_length:
        return [(0, length)]
    last_start = length - max_length
    starts = (*range(0, last_start, max_length - stride), last_start)
    return [(start, start + max_length) for start in starts]


def make_windows(
    tokenizer: RowBuilder,
    parts: Sequence[Sequence[int]],
    max_length: int,
    stride: int,
    *,
    windowed: int | None = None,
) -> Windows:
    """Build rows of at most `max_length` tokens that cover a text or pair.

    Args:
        tokenizer: builds a row from token ids; a `Tokenizer` or the like.
        parts: token ids of the one text or of both.
        max_length: maximum number of tokens of a row, with special tokens.
        stride: tokens that neighbouring windows share; at most half of a window, so fewer if the
            other text of a pair is long.
        windowed: index of the text of a pair that is divided; by default the longer one. If the
            pair does not fit into one row, the other text gets at most half of the row, or more if
            the divided text is short and leaves more free. What is left of the other text is cut.
    """
    if windowed is None:
        windowed = int(len(parts) == 2 and len(parts[1]) > len(parts[0]))
    window_length = max_length - tokenizer.num_special_tokens(len(parts))
    num_cut = 0
    if len(parts) == 2:
        other_length = len(parts[1 - windowed])
        if other_length + len(parts[windowed]) > window_length:  # they do not fit into one row
            # One place at least is kept for the divided text, even if that is empty.
            num_free = window_length - max(1, len(parts[windowed]))
            other_length = min(other_length, max(window_length // 2, num_free))
        num_cut = len(parts[1 - windowed]) - other_length
        window_length -= other_length  # what is left of a row for the divided text
        parts = [part if i == windowed else part[:other_length] for i, part in enumerate(parts)]
    spans = [(0, 0)]
    if parts[windowed]:
        overlap = min(stride, (window_length - 1) // 2)
        spans = window_spans(len(parts[windowed]), window_length, overlap)
    return Windows(
        tuple(_build_window(tokenizer, parts, windowed, start, end) for start, end in spans),
        num_cut,
    )


def _build_window(
    tokenizer: RowBuilder, parts: Sequence[Sequence[int]], windowed: int, start: int, end: int
) -> Window:
    """Build the row with tokens `start` to `end` of part `windowed`, and all of the other part."""
    row_parts = [part[start:end] if i == windowed else part for i, part in enumerate(parts)]
    row = tokenizer.build_row(row_parts)
    return Window(row.ids, row.type_ids, row.starts[windowed], start, end)


def encode_windowed(
    tokenizer: RowBuilder,
    texts: Iterable[tuple[str, str | None]],
    max_length: int,
    windowing: Windowing,
) -> EncodedExamples:
    """Encode texts or pairs to rows of at most `max_length` tokens: windows, or cut texts.

    Raises:
        ConfigError: windows would share more than half of a row.
    """
    if windowing.long_texts == "cut":
        return EncodedExamples.of_texts(encode_texts(tokenizer, texts, max_length))
    stride = windowing.overlap(max_length)

    def all_windows() -> Iterator[Windows]:
        for text, pair in texts:  # `pair` is the second text, or None
            parts = [tokenizer.encode_ids(part) for part in (text, pair) if part is not None]
            yield make_windows(tokenizer, parts, max_length, stride)

    return join_windows(all_windows())


def join_windows(all_windows: Iterable[Windows], alignment: Sequence[Any] = ()) -> EncodedExamples:
    """Collect the rows of several texts or pairs; `alignment` has an entry for each row."""
    counts = [0]

    def rows() -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], int]]:
        for windows in all_windows:
            counts.append(len(windows.rows))
            for index, row in enumerate(windows.rows):
                yield row.ids, row.type_ids, windows.num_cut if index == 0 else 0

    texts = EncodedTexts.of(rows())
    return EncodedExamples(texts, np.cumsum(counts, dtype=np.int64), alignment=alignment)

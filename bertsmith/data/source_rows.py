"""Rows that an encoder–decoder reads: a text and the token that ends it.

A pair of texts becomes one text, with a word before each part (Raffel et al. 2020, appendix D).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.windowing import Windowing
from bertsmith.data.windows import encode_windowed
from bertsmith.errors import SettingError
from bertsmith.tokenization.tokenizer import Row, Tokenizer

PAIR_WORDS = ("sentence1:", "sentence2:")
"""Words before the texts of a pair, as the paper has them for MRPC, STS-B, RTE and others."""


class SourceRows:
    """Builder of the rows that an encoder–decoder reads; a `RowBuilder`, as a tokenizer is."""

    def __init__(self, tokenizer: Tokenizer, end_id: int) -> None:
        self.tokenizer = tokenizer
        self.end_id = end_id
        first, second = PAIR_WORDS
        second = tokenizer.continuation_prefix + second
        self.pair_word_ids = [tokenizer.encode_ids(word) for word in (first, second)]

    def encode_ids(self, text: str) -> list[int]:
        return self.tokenizer.encode_ids(text)

    def num_special_tokens(self, num_texts: int) -> int:
        """Count the tokens around one text or two."""
        num_pair_tokens = sum(map(len, self.pair_word_ids)) if num_texts == 2 else 0
        return 1 + num_pair_tokens  # 1: the token that ends the row

    def build_row(self, parts: Sequence[Sequence[int] | NDArray[Any]]) -> Row:
        """Build the row of a text, or of a pair, from the ids of each, `[tokens]`."""
        word_ids = self.pair_word_ids if len(parts) == 2 else [[]]
        row: list[int] = []
        starts = []
        for ids_before, part in zip(word_ids, parts, strict=True):
            row += ids_before
            starts.append(len(row))
            row += [*part]
        row.append(self.end_id)
        ids = np.asarray(row, dtype=np.int32)
        return Row(ids, np.zeros_like(ids), tuple(starts))


def encode_sources(
    tokenizer: Tokenizer,
    end_id: int,
    texts: Iterable[tuple[str, str | None]],
    max_length: int,
    windowing: Windowing,
) -> EncodedExamples:
    """Encode texts or pairs to rows of at most `max_length` tokens: windows, or cut texts.

    Raises:
        SettingError: with the words of a pair, a row would hold no token of a text; or windows
            would share more than half of a row.
    """
    rows = SourceRows(tokenizer, end_id)
    # Each text of a pair goes on after a word, so it begins with the prefix of a continued text.
    prefix = tokenizer.continuation_prefix

    def checked_texts() -> Iterator[tuple[str, str | None]]:
        for text, pair in texts:
            # Beside the words and the end, a row must have room for two tokens: one of each text
            # of a pair. A single text needs as much.
            fewest = rows.num_special_tokens(1 if pair is None else 2) + 2
            if max_length < fewest:
                raise SettingError("max_length", max_length, f"{fewest} or more")
            yield (text, None) if pair is None else (prefix + text, prefix + pair)

    return encode_windowed(rows, checked_texts(), max_length, windowing)

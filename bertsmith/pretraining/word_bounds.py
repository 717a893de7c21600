"""Find the tokens that begin a word, for masking whole words.

A token begins a word unless its id continues a word, as `##ing` does (`Tokenizer.continues_word`).
At the beginning of a sentence it always begins one. Chinese characters are tokens of their own, so
their words come from a segmenter, a function that cuts a text into words. Neighbouring characters
are joined to text, and the segmenter says which of them begin a word. This is done when a batch is
made, so a corpus need not be built again for other words.
"""

import numpy as np

from bertsmith.errors import ConfigError, option
from bertsmith.pretraining.chinese_words import Segmenter
from bertsmith.tokenization.normalize import code_ranges
from bertsmith.tokenization.string_cache import StringCache
from bertsmith.tokenization.tokenizer import Tokenizer


def chinese_pieces(tokenizer: Tokenizer) -> np.ndarray:
    """Return the tokens that are one Chinese character, "" for others: str `[vocabulary]`."""
    chinese = code_ranges("CHINESE")
    return np.array(
        [token if len(token) == 1 and token in chinese else "" for token in tokenizer.vocab]
    )


class WordBounds:
    """Finds the tokens that begin a word.

    Args:
        tokenizer: says which ids continue a word.
        segmenter: cuts neighbouring Chinese characters into words, and its results for short texts
            are cached; without it, each character is a word.

    Raises:
        ConfigError: a segmenter is given, and no token of the tokenizer is a Chinese character.
    """

    def __init__(self, tokenizer: Tokenizer, segmenter: Segmenter | None) -> None:
        self._continues = tokenizer.continues_word
        self._segmenter = segmenter
        self._starts = StringCache(self._find_starts)
        self._pieces = chinese_pieces(tokenizer)
        self._is_chinese = self._pieces != ""
        if segmenter is not None and not self._is_chinese.any():
            raise ConfigError(
                f"{option('word_list')} or {option('segmenter')}: the tokenizer has no piece that "
                "is one Chinese character, so they would change nothing. Leave them out."
            )

    def begins(self, ids: np.ndarray, is_after_gap: np.ndarray) -> np.ndarray:
        """Compute whether each token begins a word, bool `[tokens]`.

        `ids` are integers `[tokens]`. `is_after_gap`, bool `[tokens]`, marks tokens that cannot
        continue the token before them: they begin a sentence, or follow a gap in the text.
        """
        begins: np.ndarray = ~self._continues[ids] | is_after_gap
        if self._segmenter is not None:
            self._join_characters(ids, is_after_gap, begins)
        return begins

    def _join_characters(
        self, ids: np.ndarray, is_after_gap: np.ndarray, begins: np.ndarray
    ) -> None:
        """Clear the flags of Chinese characters that continue a word."""
        is_chinese = self._is_chinese[ids]
        is_after_chinese = np.append(False, is_chinese[:-1])
        # Each stretch of neighbouring Chinese characters is split by itself.
        stretch_starts = np.flatnonzero(is_chinese & (is_after_gap | ~is_after_chinese))
        indices = np.flatnonzero(is_chinese)
        # The characters of all stretches, one after another, and where each stretch is in this text
        text = "".join(self._pieces[ids[indices]].tolist())
        text_starts = np.searchsorted(indices, stretch_starts)
        text_ends = np.append(text_starts, len(indices))[1:]
        begins[indices] = False
        bounds = zip(stretch_starts.tolist(), text_starts.tolist(), text_ends.tolist(), strict=True)
        for stretch_start, start, end in bounds:
            begins[stretch_start + self._starts[text[start:end]]] = True

    def _find_starts(self, text: str) -> np.ndarray:
        """Find the characters of a Chinese text that begin a word, int64 `[words]` from 0."""
        assert self._segmenter is not None
        lengths = [len(word) for word in self._segmenter(text)]
        return np.cumsum([0, *lengths[:-1]])

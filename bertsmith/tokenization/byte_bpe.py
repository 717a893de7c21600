"""Byte-level BPE tokenizer, RoBERTa's and ModernBERT's; no text is unknown to it.

GPT-2's pattern cuts text into words, in which a space belongs to the word after it. The UTF-8 bytes
of a word are then merged pair by pair, in the order in which merges were learned (Sennrich et al.
2016; Radford et al. 2019, section 2.2). Ids, tokens and offsets equal those of the `tokenizers`
library (ByteLevel, BPE, RobertaProcessing; ModernBERT's NFC and TemplateProcessing).
"""

import math
import re
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from heapq import heapify, heappop, heappush
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bertsmith.errors import ConfigError
from bertsmith.tokenization import byte_bpe_files
from bertsmith.tokenization.normalize import character_class, code_ranges
from bertsmith.tokenization.tokenizer import Ids, PieceAt, TextTokens, Tokenizer, joined_rows

# Words of at most this many symbols are rescanned after each merge; longer ones use a heap.
SHORT = 24
SURROGATES = re.compile("[\ud800-\udfff]")
BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")


def _byte_characters() -> str:
    seen = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return "".join(chr(byte if byte in seen else next(others)) for byte in range(256))


BYTE_CHARACTERS = _byte_characters()
"""Character for each byte: itself if visible, else one from U+0100 on (a space is `Ġ`)."""
CHARACTER_BYTES = {character: byte for byte, character in enumerate(BYTE_CHARACTERS)}


@cache
def word_pattern(highest: int) -> re.Pattern[str]:
    """Compile GPT-2's pattern for text without characters above `highest`.

    A pattern with fewer characters is faster.

    's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+
    """
    letter, number, space = (
        character_class(name, highest=highest) for name in ("LETTER", "NUMBER", "WHITESPACE")
    )
    return re.compile(
        rf"'(?:[stmd]|re|ve|ll)| ?[{letter}]+| ?[{number}]+| ?[^{space}{letter}{number}]+"
        rf"|[{space}]+(?![^{space}])|[{space}]+"
    )


def split_pattern(text: str) -> list[str]:
    """Split text by GPT-2's pattern; joined words are the text again.

    >>> split_pattern("It's 2 o'clock,  now")
    ['It', "'s", ' 2', ' o', "'", 'clock', ',', ' ', ' now']
    """
    if text.isascii():
        return word_pattern(0x7F).findall(text)
    return word_pattern(0x10FFFF if BEYOND_BMP.search(text) else 0xFFFF).findall(text)


def clean_words(text: str) -> list[str]:
    """Split any text into the words of GPT-2's pattern, without lone surrogates."""
    return split_pattern(without_surrogates(text))


def without_surrogates(text: str) -> str:
    """Remove lone surrogates, which UTF-8 cannot encode."""
    return text if text.isascii() else SURROGATES.sub("", text)


class Merger:
    """Merges of BPE, applied by rank, and from left to right (Sennrich et al. 2016, section 3.2).

    Args:
        merges: left, right and merged symbol, in the order of their ranks.
    """

    def __init__(self, merges: Iterable[tuple[int, int, int]]) -> None:
        self._ranks: dict[tuple[int, int], tuple[float, int]] = {}
        for rank, (left, right, merged) in enumerate(merges):
            self._ranks[left, right] = rank, merged  # of equal pairs the last one's rank counts

    def merge(self, symbols: list[int]) -> list[int]:
        """Merge symbols until no pair can be merged; `symbols` is used up."""
        return self._merge_long(symbols) if len(symbols) > SHORT else self._merge_short(symbols)

    def _merge_short(self, symbols: list[int]) -> list[int]:
        find = self._ranks.get
        none = (math.inf, -1)
        merges = [find(pair, none) for pair in pairwise(symbols)]
        while merges and (best := min(merges)) is not none:
            index = merges.index(best)
            symbols[index : index + 2] = [best[1]]
            del merges[index]
            if index:
                merges[index - 1] = find((symbols[index - 1], best[1]), none)
            if index < len(merges):
                merges[index] = find((best[1], symbols[index + 1]), none)
        return symbols

    def _merge_long(self, symbols: list[int]) -> list[int]:
        find = self._ranks.get
        size = len(symbols)
        following = list(range(1, size + 1))
        preceding = list(range(-1, size - 1))
        heap = [
            (*merge, index) for index, pair in enumerate(pairwise(symbols)) if (merge := find(pair))
        ]
        heapify(heap)
        while heap:
            rank, merged, left = heappop(heap)
            right = following[left]
            if right == size or find((symbols[left], symbols[right])) != (rank, merged):
                continue  # one of the pair's symbols has been merged with another symbol meanwhile
            after = following[left] = following[right]
            symbols[left] = merged
            symbols[right] = -1
            if after < size:
                preceding[after] = left
                if merge := find((merged, symbols[after])):
                    heappush(heap, (*merge, left))
            before = preceding[left]
            if before >= 0 and (merge := find((symbols[before], merged))):
                heappush(heap, (*merge, before))
        return [symbol for symbol in symbols if symbol >= 0]


class ByteBpeTokenizer(Tokenizer):
    """RoBERTa's tokenizer, <s> A </s></s> B </s> with type id 0 everywhere, or ModernBERT's.

    It is byte-level BPE (Radford et al. 2019, section 2.2).

    Args:
        vocab: the tokens, by id; all 256 bytes are among them.
        merges: pairs of tokens in the order in which they were learned.
        add_prefix_space: encode every text as if a space stood before it.
        trim_offsets: exclude the space that belongs to a token from its offsets.
        composes: normalize text to NFC.
        num_separators: separators between the texts of a pair.
        pair_type_id: the type id of a pair's second text.
        shared: the arguments of every `Tokenizer`.

    Raises:
        ConfigError: a duplicate entry, a byte without a token, or a merge of tokens that are not in
            the vocabulary.
    """

    default_tokens: ClassVar[Mapping[str, str]] = {
        "cls_token": "<s>",
        "sep_token": "</s>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
        "mask_token": "<mask>",
    }
    adds_special_tokens = True
    own_settings = (
        "add_prefix_space",
        "trim_offsets",
        "composes",
        "num_separators",
        "pair_type_id",
    )

    def __init__(
        self,
        vocab: Sequence[str],
        merges: Sequence[tuple[str, str]],
        *,
        add_prefix_space: bool = False,
        trim_offsets: bool = True,
        composes: bool = False,
        num_separators: int = 2,
        pair_type_id: int = 0,
        **shared: Any,
    ) -> None:
        super().__init__(vocab, **shared)
        self.merges = tuple(merges)
        self.add_prefix_space = add_prefix_space
        self.continuation_prefix = "" if add_prefix_space else " "
        self.trim_offsets = trim_offsets
        self.composes = composes
        self.num_separators = num_separators
        self.pair_type_id = pair_type_id
        self._byte_ids = self._number_bytes()
        self._merger = Merger(self._number_merges())
        self._find_added_tokens(self._normalize)

    def _number_bytes(self) -> list[int]:
        missing = [byte for byte in range(256) if BYTE_CHARACTERS[byte] not in self._ids]
        if missing:
            raise ConfigError(
                f"the vocabulary lacks {len(missing)} of the 256 bytes, the first of them 0x"
                f"{missing[0]:02X} ({BYTE_CHARACTERS[missing[0]]!r}), so there are texts that it "
                "cannot hold. Get a vocabulary of byte-level BPE."
            )
        return [self._ids[character] for character in BYTE_CHARACTERS]

    def _number_merges(self) -> Iterator[tuple[int, int, int]]:
        for number, (left, right) in enumerate(self.merges, start=1):
            pieces = (left, right, left + right)
            for piece in pieces:
                if piece not in self._ids:
                    raise ConfigError(
                        f"merge {number:,} joins {left!r} and {right!r}, but the vocabulary lacks "
                        f"{piece!r}. Get vocabulary and merges from the same model."
                    )
            yield self._ids[left], self._ids[right], self._ids[left + right]

    def save(self, directory: str | Path) -> None:
        """Write vocab.json, merges.txt, tokenizer.json and tokenizer_config.json."""
        pieces = self.vocab[: self.num_pieces]
        byte_bpe_files.write_byte_bpe(
            Path(directory), pieces, self.merges, self._ids, self.settings()
        )

    def _vocabulary(self) -> tuple[Any, ...]:
        return self.vocab[: self.num_pieces], self.merges

    def _identity(self) -> list[Any]:
        name, vocab, merges, settings = super()._identity()
        del settings["trim_offsets"]  # decides no ids
        for key, usual in (("composes", False), ("num_separators", 2), ("pair_type_id", 0)):
            if settings[key] == usual:
                del settings[key]  # so that fingerprints of older corpora stay valid
        return [name, vocab, merges, settings]

    def _as_text(self, token: str) -> str:
        return read_bytes([token])

    def other_cuts(self, old: Tokenizer) -> str | None:
        """Describe the first merge of `old` that this tokenizer lacks or has at another rank."""
        assert isinstance(old, ByteBpeTokenizer)
        for number, (left, right) in enumerate(old.merges):
            if self.merges[number : number + 1] != ((left, right),):
                return f"merge {number + 1:,} no longer joins {left!r} and {right!r}"
        return None

    def words(self, text: str) -> Iterable[str]:
        """Split text into words, each with the space before it."""
        text = self._normalize(without_surrogates(text))
        return split_pattern(add_space(text, self.add_prefix_space))

    def word_ids(self, word: str) -> Sequence[int]:
        return self._unit_ids[word]

    def encode_ids(self, text: str) -> list[int]:
        return self._spaced_ids(text, self.add_prefix_space)

    def encode_word_ids(self, words: Iterable[str]) -> tuple[Ids, NDArray[np.int64]]:
        """Encode single words, each as if a space stood before it.

        Returns all ids, int32 `[tokens]`, and their counts by word, int64 `[words]`.
        """
        return joined_rows(self._spaced_ids(word, True) for word in words)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Decode ids to text; bytes that are not UTF-8 become U+FFFD.

        Raises:
            InputError: an id outside the vocabulary.
        """
        return read_bytes(self._kept_tokens(ids, skip_special_tokens))

    def _spaced_ids(self, text: str, spaced: bool) -> list[int]:
        return self._ids_of(without_surrogates(text), partial(self._ordinary_ids, spaced=spaced))

    def _ordinary_ids(self, text: str, spaced: bool) -> Iterator[int]:
        """Yield the ids of text in which added tokens of raw text have been found already."""
        text = self._normalize(text)
        ids_of = self._unit_ids.__getitem__
        for piece in self._normalized_tokens.pieces(text):
            if piece.id is None:
                part = add_space(text[piece.start : piece.stop], spaced)
                yield from chain.from_iterable(map(ids_of, split_pattern(part)))
            else:
                yield piece.id

    def _normalize(self, text: str) -> str:
        return unicodedata.normalize("NFC", text) if self.composes else text

    def _align(self, text: str) -> tuple[str, list[int]]:
        normalized = self._normalize(text)
        is_same = normalized == text
        return normalized, list(range(len(text))) if is_same else align_composed(text)

    def merge_characters(self, piece: str) -> list[int]:
        """Merge a token's characters, which stand for bytes, even if these are not UTF-8."""
        return self._merger.merge([self._ids[character] for character in piece])

    def _compute_ids(self, word: str) -> tuple[int, ...]:
        return tuple(self._merger.merge([self._byte_ids[byte] for byte in word.encode()]))

    def _encode_text(self, text: str) -> TextTokens:
        clean = without_surrogates(text)
        result = super()._encode_text(clean)
        if self.trim_offsets:
            spans = enumerate(zip(result.tokens, result.offsets, strict=True))
            result.offsets = [self._trim(number, *span) for number, span in spans]
        return count_surrogates(result, text, clean)

    def _encode_ordinary(self, text: str, position: int, result: TextTokens) -> None:
        result.extend(self._locate_normalized(*self._align(text)), position)

    def _locate_normalized(self, text: str, origins: Sequence[int]) -> Iterator[PieceAt]:
        spaced = add_space(text, self.add_prefix_space)
        word_start = len(text) - len(spaced)  # an added space has the first character's index
        for word in split_pattern(spaced):
            # A byte's origin is that of its character.
            byte_origins = [
                origins[max(0, word_start + i)]
                for i, char in enumerate(word)
                for _ in char.encode()
            ]
            first = 0
            for id_ in self._unit_ids[word]:
                token = self.vocab[id_]
                last = first + len(token)
                yield PieceAt(id_, token, byte_origins[first], byte_origins[last - 1] + 1)
                first = last
            word_start += len(word)

    def _trim(self, number: int, token: str, offset: tuple[int, int]) -> tuple[int, int]:
        """Exclude a token's white space from its offsets, as the library does.

        With `add_prefix_space`, a token at the beginning of the text keeps its leading white space.
        """
        blanks = _blanks()
        start, end = offset
        leading = len(token) - len(token.lstrip(blanks))
        trailing = len(token) - len(token.rstrip(blanks))
        if leading and not (self.add_prefix_space and (number == 0 or start == 0)):
            start = min(start + leading, end)
        if trailing and end >= trailing:
            end = max(end - trailing, start)
        return start, end


def align_composed(text: str) -> list[int]:
    """Return the index in `text` of the origin of each character of its NFC.

    The origins are those of the `tokenizers` library, which counts them in three steps:

    1. Characters are decomposed. The first part of a character counts as original, its other parts
       as inserted.
    2. Marks are put in order.
    3. Parts are composed. The origin of a composed character is the next unused index, and the
       character uses one index for each of its original parts. A character of inserted parts only
       has the last used index as its origin.
    """
    parts: deque[tuple[str, int]] = deque()
    decomposed = ((part, int(i > 0)) for char in text for i, part in enumerate(decompose(char)))
    for is_mark, group in groupby(decomposed, key=lambda part: unicodedata.combining(part[0]) > 0):
        by_class = sorted(group, key=lambda part: unicodedata.combining(part[0]) * is_mark)
        parts.extend(by_class)
    origins = []
    used = 0
    for char in unicodedata.normalize("NFC", text):
        inserted = 0
        char_parts = decompose(char)
        for part in char_parts:
            index = next(i for i, (other, _) in enumerate(parts) if other == part)
            inserted += parts[index][1]
            del parts[index]
        count = len(char_parts) - inserted
        origins.append(used if count else max(0, used - 1))
        used += count
    return origins


def decompose(text: str) -> str:
    """Normalize text to NFD."""
    return unicodedata.normalize("NFD", text)


def add_space(text: str, spaced: bool) -> str:
    return f" {text}" if spaced and text and not text.startswith(" ") else text


def read_bytes(tokens: Iterable[str]) -> str:
    """Decode tokens spelled in byte characters; other tokens, such as <mask>, are kept."""
    data = bytearray()
    for token in tokens:
        try:
            data += bytes(map(CHARACTER_BYTES.__getitem__, token))
        except KeyError:
            data += token.encode()
    return data.decode("utf-8", "replace")


@cache
def _blanks() -> str:
    return BYTE_CHARACTERS[ord(" ")] + "".join(code_ranges("WHITESPACE"))


def count_surrogates(result: TextTokens, text: str, clean: str) -> TextTokens:
    """Convert offsets in `clean` to offsets in `text`, which also has lone surrogates."""
    if len(clean) < len(text):
        origins = [index for index, char in enumerate(text) if not SURROGATES.match(char)]
        origins.append(max(origins, default=0) + 1)
        result.offsets = [
            (origins[start], origins[start] if start == end else origins[end - 1] + 1)
            for start, end in result.offsets
        ]
    return result

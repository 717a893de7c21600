"""Byte-level BPE tokenizer, RoBERTa's and ModernBERT's; no text is unknown to it.

GPT-2's pattern cuts text into words, in which a space belongs to the word after it. The UTF-8 bytes
of a word are then merged pair by pair, in the order in which merges were learned (Sennrich et al.
2016; Radford et al. 2019, section 2.2). Ids, tokens and offsets equal those of the `tokenizers`
library (ByteLevel, BPE, RobertaProcessing; ModernBERT's NFC and TemplateProcessing).
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bertsmith.errors import ConfigError
from bertsmith.tokenization import byte_bpe_files
from bertsmith.tokenization.bpe_merger import Merger
from bertsmith.tokenization.bpe_words import split_pattern
from bertsmith.tokenization.nfc_origins import align_composed
from bertsmith.tokenization.normalize import code_ranges
from bertsmith.tokenization.surrogates import restore_offsets, without_surrogates
from bertsmith.tokenization.tokenizer import Ids, PieceAt, TextTokens, Tokenizer, joined_rows


def _byte_characters() -> str:
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    substitutes = iter(range(0x100, 0x200))
    return "".join(chr(byte if byte in visible else next(substitutes)) for byte in range(256))


BYTE_CHARACTERS = _byte_characters()
"""Character by which GPT-2 spells each byte in its vocabulary: the byte's own one if it is visible,
otherwise one from U+0100 on (a space is `Ġ`)."""
CHARACTER_BYTES = {character: byte for byte, character in enumerate(BYTE_CHARACTERS)}


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
    adds_special_tokens = True  # those that `vocab` lacks get the next ids
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
        # With `add_prefix_space`, the tokenizer puts that space before every text by itself.
        self.continuation_prefix = "" if add_prefix_space else " "
        self.trim_offsets = trim_offsets
        self.composes = composes
        self.num_separators = num_separators
        self.pair_type_id = pair_type_id
        self._byte_ids = self._number_bytes()
        self._merger = Merger(self._number_merges())
        self._prepare_encoding(self._normalize)

    def _number_bytes(self) -> list[int]:
        """Return the id of each of the 256 bytes.

        Raises:
            ConfigError: the vocabulary lacks a byte.
        """
        missing = [byte for byte in range(256) if BYTE_CHARACTERS[byte] not in self._ids]
        if missing:
            raise ConfigError(
                f"the vocabulary lacks {len(missing)} of the 256 bytes, the first of them 0x"
                f"{missing[0]:02X} ({BYTE_CHARACTERS[missing[0]]!r}), so there are texts that it "
                "cannot hold. Get a vocabulary of byte-level BPE."
            )
        return [self._ids[character] for character in BYTE_CHARACTERS]

    def _number_merges(self) -> Iterator[tuple[int, int, int]]:
        """Yield the ids of left, right and merged token of each merge.

        Raises:
            ConfigError: the vocabulary lacks one of the three.
        """
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
        # Older versions of bertsmith had none of these settings. RoBERTa's values are left out, so
        # that the fingerprints of older corpora stay valid.
        for key, of_roberta in (("composes", False), ("num_separators", 2), ("pair_type_id", 0)):
            if settings[key] == of_roberta:
                del settings[key]
        return [name, vocab, merges, settings]

    def _as_text(self, token: str) -> str:
        """Decode a token from byte characters to the text that it stands for."""
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
        return split_pattern(add_space(text) if self.add_prefix_space else text)

    def word_ids(self, word: str) -> Sequence[int]:
        return self._unit_ids[word]

    def encode_ids(self, text: str) -> list[int]:
        return self._spaced_ids(text, self.add_prefix_space)

    def encode_word_ids(self, words: Iterable[str]) -> tuple[Ids, NDArray[np.int64]]:
        """Encode single words, each as if a space stood before it.

        Returns all ids, int32 `[tokens]`, and their counts by word, int64 `[words]`.
        """
        return joined_rows(self._spaced_ids(word, add_prefix_space=True) for word in words)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Decode ids to text; bytes that are not UTF-8 become U+FFFD.

        Raises:
            InputError: an id outside the vocabulary.
        """
        return read_bytes(self._kept_tokens(ids, skip_special_tokens))

    def _spaced_ids(self, text: str, add_prefix_space: bool) -> list[int]:
        """Encode a text to ids, with the argument `add_prefix_space` in place of the setting."""
        encode = partial(self._ordinary_ids, add_prefix_space=add_prefix_space)
        return self._ids_of(without_surrogates(text), encode)

    def _ordinary_ids(self, text: str, add_prefix_space: bool) -> Iterator[int]:
        """Yield the ids of text in which added tokens of raw text have been found already."""
        text = self._normalize(text)
        ids_of = self._unit_ids.__getitem__
        for part in self._normalized_tokens.split(text):
            if part.id is None:
                ordinary = text[part.start : part.stop]
                ordinary = add_space(ordinary) if add_prefix_space else ordinary
                yield from chain.from_iterable(map(ids_of, split_pattern(ordinary)))
            else:
                yield part.id

    def _normalize(self, text: str) -> str:
        return unicodedata.normalize("NFC", text) if self.composes else text

    def _align(self, text: str) -> tuple[str, list[int]]:
        """Normalize text; also return the index in `text` of each character's origin."""
        normalized = self._normalize(text)
        if normalized == text:
            return text, list(range(len(text)))
        return normalized, align_composed(text)

    def merge_characters(self, piece: str) -> list[int]:
        """Merge a token's characters, which stand for bytes, to ids, even if they are not UTF-8."""
        return self._merger.merge([self._ids[character] for character in piece])

    def _compute_ids(self, word: str) -> tuple[int, ...]:
        """Merge the bytes of a word to ids; the base class caches the results in `_unit_ids`."""
        return tuple(self._merger.merge([self._byte_ids[byte] for byte in word.encode()]))

    def _encode_text(self, text: str) -> TextTokens:
        clean = without_surrogates(text)
        result = super()._encode_text(clean)
        if self.trim_offsets:
            spans = enumerate(zip(result.tokens, result.offsets, strict=True))
            result.offsets = [self._trim(number, *span) for number, span in spans]
        return restore_offsets(result, text, clean)

    def _encode_ordinary(self, text: str, position: int, result: TextTokens) -> None:
        """Append the tokens of a part of a text, whose first character has index `position` there.

        The part is normalized and cut as a whole, not unit by unit as in the base class.
        """
        result.extend(self._locate_normalized(*self._align(text)), position)

    def _locate_normalized(self, text: str, origins: Sequence[int]) -> Iterator[PieceAt]:
        """Yield the tokens of normalized text, with offsets in the text before normalization.

        `origins` has the index there of each character of `text`.
        """
        spaced = add_space(text) if self.add_prefix_space else text
        word_start = len(text) - len(spaced)  # -1 if a space was added, else 0
        for word in split_pattern(spaced):
            # A byte has the origin of its character; an added space has the origin of the first
            # character.
            byte_origins = [
                origins[max(0, word_start + i)]
                for i, char in enumerate(word)
                for _ in char.encode()
            ]
            start = 0
            for id_ in self._unit_ids[word]:
                token = self.vocab[id_]
                end = start + len(token)  # a token has one character for each byte
                yield PieceAt(id_, token, byte_origins[start], byte_origins[end - 1] + 1)
                start = end
            word_start += len(word)

    def _trim(self, number: int, token: str, offset: tuple[int, int]) -> tuple[int, int]:
        """Exclude a token's white space from its offsets, as the `tokenizers` library does.

        With `add_prefix_space`, a token at the beginning of the text keeps its leading white space.

        Args:
            number: the token's number in the text, from 0.
        """
        white_space = _white_space()
        start, end = offset
        leading = len(token) - len(token.lstrip(white_space))
        trailing = len(token) - len(token.rstrip(white_space))
        if leading and not (self.add_prefix_space and (number == 0 or start == 0)):
            start = min(start + leading, end)
        if trailing and end >= trailing:
            end = max(end - trailing, start)
        return start, end


def add_space(text: str) -> str:
    """Put a space before a text, unless it is empty or begins with one."""
    return f" {text}" if text and not text.startswith(" ") else text


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
def _white_space() -> str:
    """Return all characters that are white space in the spelling of a token."""
    return BYTE_CHARACTERS[ord(" ")] + "".join(code_ranges("WHITESPACE"))

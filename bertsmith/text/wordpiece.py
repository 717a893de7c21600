"""WordPiece: text in, token ids with types and offsets out, and back to text.

Ids, type ids, tokens and offsets are those of the `tokenizers` library (BertNormalizer,
BertPreTokenizer, WordPiece, TemplateProcessing), character for character. What makes it fast is
that text is cut into units that cannot influence each other (`normalize.unit_pattern`), so the ids
of a unit are worked out once, exactly, and then remembered: common text is answered from
dictionaries and only unseen words are ever normalized. Many texts at once are cut and looked up
by numpy (`bulk_encoding`), with the same rules for what is new.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertsmith.errors import CheckpointError, ConfigError, InputError
from bertsmith.text import tokenizer_files
from bertsmith.text.added_tokens import AddedToken, TokenFinder
from bertsmith.text.bulk_encoding import BulkEncoder
from bertsmith.text.chunk_table import MAX_CHUNK_BYTES, MAX_KEYS
from bertsmith.text.normalize import Normalizer, locate_words, unit_pattern
from bertsmith.text.piece_cutting import PieceCutter

CONTINUING_PREFIX = "##"
# Longer keys come back too seldom to be worth their place.
LONGEST_KEY = 24
# A byte that UTF-8 never has: in text for the bulk encoder it begins the id of an added token.
TOKEN_MARK = b"\xff"
# From so many characters on, numpy is faster than remembered units one by one.
LONG_TEXT = 1000
# Entries of one generation, about 30 MB; 10 MB of English text have some 90,000 different ones.
CACHE_SIZE = 1 << 17

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Encoding:
    """A text or a pair as the model reads it; all lists have one entry per token."""

    ids: list[int]
    type_ids: list[int]
    """0 in the first text and its special tokens, 1 in the second."""
    tokens: list[str]
    offsets: list[tuple[int, int]]
    """First character and one past the last, in the token's own text; (0, 0) for [CLS], [SEP]."""
    special_tokens_mask: list[int]
    """1 for [CLS] and [SEP] that were put around the text."""
    sequence_ids: list[int | None]
    """0 or 1 for the text a token comes from, None for [CLS] and [SEP]."""
    num_truncated: int
    """Tokens cut away to fit `max_length`."""


@dataclass(slots=True)
class TextTokens:
    """The tokens of one text while they are collected; the lists are as in `Encoding`."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]

    def append(self, id_: int, token: str, offset: tuple[int, int]) -> None:
        """Add one token."""
        self.ids.append(id_)
        self.tokens.append(token)
        self.offsets.append(offset)


class Memory(dict[str, Value]):
    """Values of a function of a string, remembered.

    When it is full, its entries become the older generation, which replaces the last one; what is
    asked for again comes back from there. So at most two generations are kept, and common strings
    never have to be computed twice.
    """

    def __init__(self, compute: Callable[[str], Value]) -> None:
        super().__init__()
        self._compute = compute
        self._older: dict[str, Value] = {}

    def __missing__(self, key: str) -> Value:
        value = self._older[key] if key in self._older else self._compute(key)
        if len(key) <= LONGEST_KEY:
            if len(self) >= CACHE_SIZE:
                self._older = dict(self)
                self.clear()
            self[key] = value
        return value


class WordPiece:
    """Cuts a word into the longest pieces that the vocabulary has, from left to right.

    A word that cannot be cut, or has more than `max_chars` characters, is unknown as a whole.
    """

    def __init__(self, vocab: Sequence[str], unk_id: int, max_chars: int) -> None:
        self._unknown = (unk_id,)
        self._max_chars = max_chars
        self._starts = {piece: id_ for id_, piece in enumerate(vocab)}
        self._continuations = {
            piece.removeprefix(CONTINUING_PREFIX): id_
            for piece, id_ in self._starts.items()
            if piece.startswith(CONTINUING_PREFIX)
        }
        self._longest_start = max(map(len, self._starts)) or 1
        self._longest_continuation = max(map(len, self._continuations), default=0) or 1

    def cutter(self) -> PieceCutter | None:
        """What cuts many words at once; None where short words are too long, or pieces too many."""
        if self._max_chars < MAX_CHUNK_BYTES or len(self._starts) > MAX_KEYS:
            return None
        return PieceCutter(self._starts, self._continuations)

    def ids(self, word: str) -> tuple[int, ...]:
        """The ids of a word's pieces, at least one."""
        size = len(word)
        if size > self._max_chars:
            return self._unknown
        find, longest, start, ids = self._starts.get, self._longest_start, 0, []
        while start < size:
            end = start + longest if longest < size - start else size
            while (id_ := find(word[start:end])) is None:
                end -= 1
                if end == start:
                    return self._unknown
            ids.append(id_)
            find, longest, start = self._continuations.get, self._longest_continuation, end
        return tuple(ids)


class Tokenizer:
    """BERT's tokenizer: the vocabulary and the rules of one model.

    Args:
        vocab: the pieces, by id.
        lowercase: lower the case of the text, as uncased models do.
        strip_accents: drop accents; None does as `lowercase`.
        tokenize_chinese_chars: make every Chinese character a word of its own.
        model_max_length: the longest encoding the model can read; kept for others, not enforced.
        added_tokens: tokens to find in the raw text; those that `vocab` lacks get the next ids.
            None stands for the five special tokens.
        decoder_cleanup: `decode` removes the space before English punctuation.
        max_input_chars_per_word: a longer word becomes [UNK].

    Raises:
        ConfigError: an empty vocabulary, an entry that stands twice, or a missing special token.
    """

    def __init__(
        self,
        vocab: Sequence[str],
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
        model_max_length: int = 512,
        cls_token: str = "[CLS]",
        sep_token: str = "[SEP]",
        pad_token: str = "[PAD]",
        unk_token: str = "[UNK]",
        mask_token: str = "[MASK]",
        added_tokens: Sequence[AddedToken] | None = None,
        decoder_cleanup: bool = True,
        max_input_chars_per_word: int = 100,
    ) -> None:
        special_tokens = (pad_token, unk_token, cls_token, sep_token, mask_token)
        pieces = set(vocab)
        extra = [t.content for t in added_tokens or () if t.content not in pieces]
        check_vocabulary([*vocab, *extra], special_tokens)
        if unk_token not in pieces:
            raise ConfigError(
                f"the vocabulary lacks {unk_token}; as an added token alone it cannot stand for "
                "unknown words. Add it to the vocabulary itself."
            )
        if added_tokens is None:
            added_tokens = [AddedToken(token) for token in special_tokens]

        self.vocab: list[str] = [*vocab, *extra]
        self.vocab_size = len(self.vocab)
        self.num_pieces = len(vocab)
        """Entries that WordPiece may use; the rest of `vocab` are added tokens."""
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        self.tokenize_chinese_chars = tokenize_chinese_chars
        self.model_max_length = model_max_length
        self.pad_token, self.unk_token = pad_token, unk_token
        self.cls_token, self.sep_token, self.mask_token = cls_token, sep_token, mask_token
        self.added_tokens = tuple(added_tokens)
        self.decoder_cleanup = decoder_cleanup
        self.max_input_chars_per_word = max_input_chars_per_word

        self._ids = {token: id_ for id_, token in enumerate(self.vocab)}
        self.pad_id, self.unk_id = self._ids[pad_token], self._ids[unk_token]
        self.cls_id, self.sep_id = self._ids[cls_token], self._ids[sep_token]
        self.mask_id = self._ids[mask_token]
        special = {t.content for t in added_tokens if t.special}
        self.special_ids = frozenset(self._ids[token] for token in special | set(special_tokens))
        self._build()

    def _build(self) -> None:
        self._normalizer = Normalizer(
            self.lowercase, self.strip_accents, self.tokenize_chinese_chars
        )
        self._wordpiece = WordPiece(
            self.vocab[: self.num_pieces], self.unk_id, self.max_input_chars_per_word
        )
        numbered = [(self._ids[token.content], token) for token in self.added_tokens]
        self._raw_tokens = TokenFinder([entry for entry in numbered if not entry[1].normalized])
        self._normalized_tokens = TokenFinder(
            [entry for entry in numbered if entry[1].normalized], self._normalizer.normalize
        )
        # The library decodes a token that was searched for in normalized text as it is found there,
        # and skips only what then still reads like a special token.
        self._decoded = list(self.vocab)
        for id_, token in numbered:
            if token.normalized:
                self._decoded[id_] = self._normalizer.normalize(token.content)
        special = {token.content for token in self.added_tokens if token.special}
        self._skipped_ids = {id_ for id_, text in enumerate(self._decoded) if text in special}
        self._find_units = unit_pattern(self.tokenize_chinese_chars).findall
        self._unit_ids = Memory(self._compute_ids)
        self._unit_pieces = Memory(self._locate_pieces)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Tokenizer, self.vocab[: self.num_pieces], **self.settings()), ()

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Read a BERT folder (tokenizer.json first, else vocab.txt) or a vocab.txt.

        Settings come from tokenizer.json; what it does not say, from tokenizer_config.json;
        what neither says is BERT's default, which lowers the case.

        Raises:
            CheckpointError: not a BERT WordPiece tokenizer, or damaged; the message names the file.
        """
        place, vocab, settings = tokenizer_files.read(Path(path))
        try:
            return cls(vocab, **settings)
        except ConfigError as error:
            raise CheckpointError(f"{place}: {error}") from error

    def save(self, directory: str | Path) -> None:
        """Write vocab.txt, tokenizer.json and tokenizer_config.json, for us and transformers."""
        tokenizer_files.write(
            Path(directory), self.vocab[: self.num_pieces], self._ids, self.settings()
        )

    def settings(self) -> dict[str, Any]:
        """The keyword arguments that make an equal tokenizer of the same vocabulary."""
        return {
            "lowercase": self.lowercase,
            "strip_accents": self.strip_accents,
            "tokenize_chinese_chars": self.tokenize_chinese_chars,
            "model_max_length": self.model_max_length,
            "cls_token": self.cls_token,
            "sep_token": self.sep_token,
            "pad_token": self.pad_token,
            "unk_token": self.unk_token,
            "mask_token": self.mask_token,
            "added_tokens": self.added_tokens,
            "decoder_cleanup": self.decoder_cleanup,
            "max_input_chars_per_word": self.max_input_chars_per_word,
        }

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the vocabulary and every setting that decides ids, as hexadecimal digits.

        Left out are `model_max_length` and `decoder_cleanup`: ids stay valid when they change.
        """
        settings = self.settings() | {
            "strip_accents": self._normalizer.strips_accents,
            "added_tokens": sorted(astuple(token) for token in self.added_tokens),
        }
        del settings["model_max_length"], settings["decoder_cleanup"]
        written = json.dumps([self.vocab, self.num_pieces, settings], sort_keys=True)
        return hashlib.sha256(written.encode("ascii")).hexdigest()

    @cached_property
    def continues_word(self) -> NDArray[np.bool_]:
        """Whether each id continues the word before it, bool `[vocab_size]`; none special."""
        continues = [
            len(piece) > len(CONTINUING_PREFIX) and piece.startswith(CONTINUING_PREFIX)
            for piece in self.vocab[: self.num_pieces]
        ]
        flags = np.zeros(self.vocab_size, dtype=np.bool_)
        flags[: self.num_pieces] = continues
        flags[list(self.special_ids)] = False
        return flags

    def token_to_id(self, token: str) -> int | None:
        """The id of a vocabulary entry, None where there is none."""
        return self._ids.get(token)

    def id_to_token(self, id: int) -> str:  # noqa: A002 - the field's word
        """The vocabulary entry of an id.

        Raises:
            InputError: no such id.
        """
        self._check_ids([id])
        return self.vocab[id]

    def encode(self, text: str, pair: str | None = None, max_length: int | None = None) -> Encoding:
        """Encode a text, or a pair of texts, with [CLS] and [SEP] around it.

        A result longer than `max_length` tokens is cut at the end of its longer text first.

        Raises:
            ConfigError: `max_length` has no room for the special tokens.
        """
        texts = [self._encode_text(text)]
        if pair is not None:
            texts.append(self._encode_text(pair))
        kept = lengths = [len(part.ids) for part in texts]
        if max_length is not None:
            kept = truncated_lengths(lengths, self._room(lengths, max_length))
        return self._assemble(texts, kept)

    def encode_ids(self, text: str) -> list[int]:
        """The ids of a text alone, without special tokens around it."""
        if self._normalized_tokens:
            return self._encode_text(text).ids
        if len(text) >= LONG_TEXT:
            return list(self.encode_batch_ids([text])[0].tolist())
        ids: list[int] = []
        for piece in self._raw_tokens.pieces(text):
            if piece.id is None:
                units = self._find_units(text[piece.start : piece.stop])
                ids += chain.from_iterable(map(self._unit_ids.__getitem__, units))
            else:
                ids.append(piece.id)
        return ids

    def encode_batch_ids(self, texts: Iterable[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The ids of many texts, without special tokens: the fast way for corpora.

        Returns all ids in one array `[tokens]`, and how many of them each text has, `[texts]`.
        """
        if not self._normalized_tokens:
            return self._bulk_encoder.encode(map(self._to_bytes, texts))
        rows = [self._encode_text(text).ids for text in texts]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum())), lengths

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Text of ids: pieces joined to words, words by spaces.

        Raises:
            InputError: an id outside the vocabulary.
        """
        self._check_ids(ids)
        skipped = self._skipped_ids if skip_special_tokens else ()
        tokens = [self._decoded[id_] for id_ in ids if id_ not in skipped]
        parts = tokens[:1] + [
            token.removeprefix(CONTINUING_PREFIX)
            if token.startswith(CONTINUING_PREFIX)
            else f" {token}"
            for token in tokens[1:]
        ]
        return "".join(map(clean_up, parts) if self.decoder_cleanup else parts)

    def _check_ids(self, ids: Sequence[int]) -> None:
        wrong = [id_ for id_ in ids if not 0 <= id_ < self.vocab_size]
        if wrong:
            raise InputError(
                f"token id {wrong[0]} is not in the vocabulary, which has ids 0 to "
                f"{self.vocab_size - 1:,}. Use the tokenizer that the ids were made with."
            )

    @cached_property
    def _bulk_encoder(self) -> BulkEncoder:
        return BulkEncoder(
            self._compute_chunk_ids, lowercase=self.lowercase, cutter=self._wordpiece.cutter()
        )

    def _to_bytes(self, text: str) -> bytes:
        """UTF-8 for the bulk encoder, in which an added token is `TOKEN_MARK` and its id."""
        if self._raw_tokens.may_be_in(text):
            return b" ".join(
                self._spaced_bytes(text[piece.start : piece.stop])
                if piece.id is None
                else b"%b%d" % (TOKEN_MARK, piece.id)
                for piece in self._raw_tokens.pieces(text)
            )
        return self._spaced_bytes(text)

    def _spaced_bytes(self, text: str) -> bytes:
        """UTF-8 of ordinary text; with spaces between units where it may have few, as in Chinese.

        Lone surrogates, which UTF-8 cannot hold, are left out, as cleaning would do.
        """
        encoded = text.encode("utf-8", "ignore")
        if 2 * len(encoded) > 3 * len(text):
            return " ".join(self._find_units(text)).encode("utf-8", "ignore")
        return encoded

    def _compute_chunk_ids(self, chunk: bytes) -> Sequence[int]:
        if chunk.isalnum():  # ASCII alone, and in lower case already: a word as it stands
            return self._wordpiece.ids(chunk.decode())
        if chunk.startswith(TOKEN_MARK):
            return (int(chunk.removeprefix(TOKEN_MARK)),)
        return self._compute_ids(chunk.decode())

    def _compute_ids(self, text: str) -> tuple[int, ...]:
        """Ids of ordinary text, from the rules and not from memory."""
        if text.isascii() and text.isalnum():  # a third of the time of the general way
            return self._wordpiece.ids(text.lower() if self.lowercase else text)
        return tuple(chain.from_iterable(map(self._wordpiece.ids, self._normalizer.words(text))))

    def _locate_pieces(self, unit: str) -> tuple[tuple[int, int, int], ...]:
        """Id, start and end in `unit` of each of its pieces."""
        return tuple(self._locate_normalized(*self._normalizer.align(unit)))

    def _locate_normalized(
        self, normalized: str, origins: Sequence[int]
    ) -> Iterator[tuple[int, int, int]]:
        for word, start in locate_words(normalized):
            for id_, first, last in self._cut_word(word):
                yield id_, origins[start + first], origins[start + last - 1] + 1

    def _cut_word(self, word: str) -> Iterator[tuple[int, int, int]]:
        """Id, start and end in `word` of each of its pieces."""
        ids = self._wordpiece.ids(word)
        start = 0
        for id_ in ids:
            length = len(self.vocab[id_]) - (len(CONTINUING_PREFIX) if start else 0)
            # The only piece is the whole word, even where it is [UNK].
            end = len(word) if len(ids) == 1 else start + length
            yield id_, start, end
            start = end

    def _encode_text(self, text: str) -> TextTokens:
        """The tokens of one text, added ones included."""
        result = TextTokens([], [], [])
        for piece in self._raw_tokens.pieces(text):
            part = text[piece.start : piece.stop]
            if piece.id is not None:
                result.append(piece.id, part, (piece.start, piece.stop))
            elif self._normalized_tokens:
                self._encode_normalized(part, piece.start, result)
            else:
                self._encode_ordinary(part, piece.start, result)
        return result

    def _encode_ordinary(self, text: str, position: int, result: TextTokens) -> None:
        """Append the tokens of ordinary text that stands at `position`."""
        ids, offsets, remembered = result.ids, result.offsets, self._unit_pieces
        for unit in self._find_units(text):
            for id_, start, end in remembered[unit]:
                ids.append(id_)
                offsets.append((position + start, position + end))
            position += len(unit)
        result.tokens += [self.vocab[id_] for id_ in ids[len(result.tokens) :]]

    def _encode_normalized(self, text: str, position: int, result: TextTokens) -> None:
        """Append the tokens of text which must be normalized whole to find added tokens in it."""
        normalized, origins = self._normalizer.align(text)
        for piece in self._normalized_tokens.pieces(normalized):
            part = slice(piece.start, piece.stop)
            if piece.id is not None:
                start, end = origins[piece.start], origins[piece.stop - 1] + 1
                result.append(piece.id, normalized[part], (position + start, position + end))
                continue
            for id_, start, end in self._locate_normalized(normalized[part], origins[part]):
                result.append(id_, self.vocab[id_], (position + start, position + end))

    def _room(self, lengths: Sequence[int], max_length: int) -> int:
        """Tokens of text that fit beside the special tokens."""
        num_special = len(lengths) + 1
        if max_length < num_special:
            raise ConfigError(
                f"max_length is {max_length}, but {self.cls_token} and {self.sep_token} alone take "
                f"{num_special} tokens. Choose {num_special + len(lengths)} or more."
            )
        return max_length - num_special

    def _assemble(self, texts: Sequence[TextTokens], kept: Sequence[int]) -> Encoding:
        """Put [CLS] and [SEP] around the kept part of each text."""
        framed = TextTokens([], [], [])
        framed.append(self.cls_id, self.cls_token, (0, 0))
        type_ids, special_tokens_mask = [0], [1]
        sequence_ids: list[int | None] = [None]
        for number, (part, length) in enumerate(zip(texts, kept, strict=True)):
            framed.ids += part.ids[:length]
            framed.tokens += part.tokens[:length]
            framed.offsets += part.offsets[:length]
            framed.append(self.sep_id, self.sep_token, (0, 0))
            type_ids += [number] * (length + 1)
            special_tokens_mask += [0] * length + [1]
            sequence_ids += [number] * length
            sequence_ids.append(None)
        return Encoding(
            framed.ids,
            type_ids,
            framed.tokens,
            framed.offsets,
            special_tokens_mask,
            sequence_ids,
            num_truncated=sum(len(part.ids) for part in texts) - sum(kept),
        )


def truncated_lengths(lengths: Sequence[int], room: int) -> list[int]:
    """How many tokens of each text are kept so that together they fit into `room`.

    The longer text gives way first; when both must, they share, and the odd token goes to the
    longer text (to the second of two equals), as in the `tokenizers` library.

    >>> truncated_lengths([5, 300], room=125), truncated_lengths([200, 300], room=125)
    ([5, 120], [62, 63])
    """
    if sum(lengths) <= room:
        return list(lengths)
    if len(lengths) == 1:
        return [room]
    shorter = min(*lengths, room // 2)
    kept = [shorter, room - shorter]
    return kept if lengths[0] <= lengths[1] else kept[::-1]


def clean_up(part: str) -> str:
    """Undo the spaces around punctuation in one decoded part, as the library's decoder does."""
    for written, meant in (
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" do not", " don't"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ):
        part = part.replace(written, meant)
    return part


def check_vocabulary(vocab: Sequence[str], special_tokens: Sequence[str]) -> None:
    """Refuse a vocabulary that cannot number its entries or lacks a special token."""
    if not vocab:
        raise ConfigError("the vocabulary is empty. It needs one piece per line.")
    first_ids: dict[str, int] = {}
    for id_, token in enumerate(vocab):
        first = first_ids.setdefault(token, id_)
        if first != id_:
            raise ConfigError(
                f"the vocabulary has {token!r} twice, as ids {first:,} and {id_:,} (lines "
                f"{first + 1:,} and {id_ + 1:,} of vocab.txt). Each entry may stand once."
            )
        if "\n" in token:
            raise ConfigError(
                f"the vocabulary entry {token!r} (id {id_:,}) holds a line break, which vocab.txt "
                "cannot. Remove the line break."
            )
    missing = [token for token in special_tokens if token not in first_ids]
    if missing:
        raise ConfigError(
            f"the vocabulary lacks {', '.join(missing)}. It must hold {' '.join(special_tokens)}; "
            "if they have other names, give those in tokenizer_config.json."
        )

"""Base class of all tokenizers: a text or a pair → token ids with special tokens.

Each kind of tokenizer has a file of its own (`wordpiece`, `byte_bpe`, `unigram`), which cuts
ordinary text into pieces (tokens). This file has the parts that all kinds share: ids and names,
added tokens, and how a row such as [CLS] A [SEP] B [SEP] is put together and cut to a length.

Added tokens, such as [MASK], are found in a text first. The text between them is divided into
units, such as words, whose pieces depend on the unit alone. So the pieces of each distinct unit are
computed once and cached: `_unit_ids` has only ids, `_unit_pieces` also the offsets that `encode`
returns.
"""

import hashlib
import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property, lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertsmith.errors import ConfigError, InputError
from bertsmith.tokenization.added_tokens import AddedToken, TokenFinder
from bertsmith.tokenization.calling import CallableTokenizer, Encoding
from bertsmith.tokenization.normalize import code_ranges
from bertsmith.tokenization.string_cache import StringCache
from bertsmith.tokenization.tokenizer_files import SPECIAL_NAMES

Ids = NDArray[np.int32]


class Row(NamedTuple):
    """One or two texts with special tokens, int32 `[tokens]`, and the start of each text."""

    ids: Ids
    type_ids: Ids
    starts: tuple[int, ...]


class PieceAt(NamedTuple):
    """Token of a text: id, spelling, first character, one past the last."""

    id: int
    token: str
    start: int
    end: int


@dataclass(slots=True)
class TextTokens:
    """The tokens of one text while they are collected; the lists are as in `Encoding`."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]

    def extend(self, pieces: Iterable[PieceAt], position: int) -> None:
        """Append the tokens of a part of the text, whose first character has index `position`."""
        for id_, token, start, end in pieces:
            self.ids.append(id_)
            self.tokens.append(token)
            self.offsets.append((position + start, position + end))


class Tokenizer(CallableTokenizer):
    """The vocabulary and the rules of one model.

    `load_tokenizer` opens one of any kind.

    Args:
        vocab: the pieces, by id.
        added_tokens: tokens to find in the raw text; those that `vocab` lacks get the next ids.
            None stands for the special tokens, which `vocab` must then hold unless
            `adds_special_tokens` is set.
        model_max_length: the longest encoding that the model can read; stored for other programs,
            and used by calls that truncate or pad without a length.
        special_tokens: `pad_token` and so on, if they differ from `default_tokens`.

    Raises:
        ConfigError: an empty vocabulary, a repeated entry, or a missing special token.
    """

    default_tokens: ClassVar[Mapping[str, str]]
    """Special tokens by the names of their arguments."""
    adds_special_tokens: ClassVar[bool] = False
    """The rule for a tokenizer that is built without added tokens. If True, special tokens that
    `vocab` lacks get the next ids, and [MASK] includes the white space before it. If False, `vocab`
    must have them."""
    pair_type_id: int = 1
    """The type id of a pair's second text."""
    num_separators: int = 1
    """Separators between the texts of a pair."""
    continuation_prefix: str = ""
    """Prefix that marks a text as continuing another: a space for byte-level BPE."""
    continuing_subword_prefix: ClassVar[str] = ""
    """Prefix of the pieces that continue a word: `##` for WordPiece; other kinds have none."""

    unit_gap: ClassVar[int] = 0
    """Number of characters of a text that `_units` leaves out between two units."""
    own_settings: ClassVar[tuple[str, ...]]
    """Keyword arguments that only this kind has, stored as attributes."""

    pad_token: str
    unk_token: str
    cls_token: str
    sep_token: str
    mask_token: str

    def __init__(
        self,
        vocab: Sequence[str],
        *,
        added_tokens: Sequence[AddedToken] | None = None,
        model_max_length: int = 512,
        **special_tokens: str,
    ) -> None:
        if unknown := special_tokens.keys() - self.default_tokens:
            raise TypeError(f"unexpected arguments: {', '.join(unknown)}")
        named = {**self.default_tokens, **special_tokens}
        names = tuple(named.values())
        pieces = set(vocab)
        may_extend_vocab = added_tokens is not None or self.adds_special_tokens
        if added_tokens is None:
            added_tokens = special_added_tokens(type(self), named)
        contents = [token.content for token in added_tokens]
        extra = [content for content in contents if may_extend_vocab and content not in pieces]
        check_vocabulary([*vocab, *extra], names)

        self.vocab: list[str] = [*vocab, *extra]
        self.vocab_size = len(self.vocab)
        self.num_pieces = len(vocab)
        """Entries that text may be cut into; the rest of `vocab` are added tokens."""
        self.model_max_length = model_max_length
        for name, token in named.items():
            setattr(self, name, token)

        self._ids = {token: id_ for id_, token in enumerate(self.vocab)}
        # In the order of ids, as in the files.
        self.added_tokens = tuple(sorted(added_tokens, key=lambda token: self._ids[token.content]))
        self.pad_id, self.unk_id = self._ids[self.pad_token], self._ids[self.unk_token]
        self.cls_id, self.sep_id = self._ids[self.cls_token], self._ids[self.sep_token]
        self.mask_id = self._ids[self.mask_token]
        special = {token.content for token in added_tokens if token.special}
        self.special_ids = frozenset(self._ids[token] for token in special | set(names))

    def _prepare_encoding(self, normalize: Callable[[str], str]) -> None:
        """Set the caches of units, the finders of added tokens, and the spellings for `decode`.

        Each kind calls this at the end of its `__init__`, with the function that normalizes text.
        """
        self._unit_ids = StringCache(self._compute_ids)
        self._unit_pieces = StringCache(self._locate_pieces)
        numbered = [(self._ids[token.content], token) for token in self.added_tokens]
        self._raw_tokens = TokenFinder([entry for entry in numbered if not entry[1].normalized])
        self._normalized_tokens = TokenFinder(
            [entry for entry in numbered if entry[1].normalized], normalize
        )
        # The `tokenizers` library decodes a token that is searched for in normalized text to its
        # normalized form, and skips it only if that form still reads like a special token.
        self._decoded = list(self.vocab)
        for id_, token in numbered:
            if token.normalized:
                self._decoded[id_] = normalize(token.content)
        special = {token.content for token in self.added_tokens if token.special}
        self._skipped_ids = {id_ for id_, text in enumerate(self._decoded) if text in special}

    def __repr__(self) -> str:
        case = "uncased" if self.lowers_case else "cased"
        return f"<{type(self).__name__}: {self.vocab_size:,} tokens, {case}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickle has only the arguments, so the caches and tables are built again.
        return partial(type(self), *self._vocabulary(), **self.settings()), ()

    def _vocabulary(self) -> tuple[Any, ...]:
        """Return the arguments that hold pieces; `settings` has the others."""
        return (self.vocab[: self.num_pieces],)

    @abstractmethod
    def save(self, directory: str | Path) -> None:
        """Write tokenizer.json, tokenizer_config.json and the files that older programs read."""

    def settings(self) -> dict[str, Any]:
        """Return the keyword arguments of an equal tokenizer, besides the vocabulary."""
        names = (*self.own_settings, "model_max_length", *SPECIAL_NAMES, "added_tokens")
        return {name: getattr(self, name) for name in names}

    def other_cuts(self, old: "Tokenizer") -> str | None:
        """Describe why this tokenizer may split words otherwise than `old`; None if it does not.

        Both are of one kind, and this one has all tokens of `old`. Words that contain a token which
        `old` lacks do not count.
        """
        return None  # holds for WordPiece, which takes longest matches; other kinds override this

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the vocabulary and every setting that decides ids, as hexadecimal digits.

        Settings that may change while ids stay valid, such as `model_max_length`, are left out.
        """
        written = json.dumps(self._identity(), sort_keys=True)
        return hashlib.sha256(written.encode("ascii")).hexdigest()

    def _identity(self) -> list[Any]:
        """Return everything that decides ids, for the fingerprint."""
        settings = self.settings() | {
            "added_tokens": sorted(astuple(token) for token in self.added_tokens)
        }
        del settings["model_max_length"]
        return [type(self).__name__, *self._vocabulary(), settings]

    @cached_property
    def continues_word(self) -> NDArray[np.bool_]:
        """Mask of tokens that continue the word of the token before, bool `[vocab_size]` by id.

        Such a token begins with neither white space, punctuation nor a Chinese character.
        Byte-level BPE also begins a new word where a number follows letters; this depends on the
        token before, so the mask leaves it out.
        """
        added = {token.content for token in self.added_tokens}
        begins_word = [
            token in added or is_word_start(self._as_text(token)) for token in self.vocab
        ]
        return ~np.array(begins_word)

    def _as_text(self, token: str) -> str:
        """Return a token as it reads in a text, with the space that belongs to it."""
        return token

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a token, or None."""
        return self._ids.get(token)

    def id_to_token(self, id: int) -> str:  # noqa: A002 - the field's word
        """Return the token of an id.

        Raises:
            InputError: no such id.
        """
        self._check_ids([id])
        return self.vocab[id]

    def encode(self, text: str, pair: str | None = None, max_length: int | None = None) -> Encoding:
        """Encode a text, or a pair of texts, with special tokens around it.

        A result longer than `max_length` tokens, special ones included, is cut at the end of its
        longer text first.

        Raises:
            ConfigError: `max_length` has no room for the special tokens.
            InputError: a text is not a string.
        """
        for name, value in (("text", text), ("pair", "" if pair is None else pair)):
            if not isinstance(value, str):
                raise InputError(
                    f"{name}: found {type(value).__name__}. Give a string; of several texts encode "
                    "each by itself."
                )
        texts = [self._encode_text(text)]
        if pair is not None:
            texts.append(self._encode_text(pair))
        num_kept = lengths = [len(part.ids) for part in texts]
        if max_length is not None:
            num_kept = truncated_lengths(lengths, self._room(lengths, max_length))
        return self._assemble(texts, num_kept)

    @abstractmethod
    def words(self, text: str) -> Iterable[str]:
        """Yield a text's normalized words, which are cut one by one; ignore added tokens."""

    @abstractmethod
    def word_ids(self, word: str) -> Sequence[int]:
        """Return the ids of a word as `words` gives it."""

    def encode_ids(self, text: str) -> list[int]:
        """Encode a text to ids without special tokens, faster than `encode`, without offsets."""
        # Some added tokens are searched for in normalized text. A text is then normalized as a
        # whole, not unit by unit.
        if self._normalized_tokens:
            return self._encode_text(text).ids
        ids_of = self._unit_ids.__getitem__
        return self._ids_of(text, lambda part: chain.from_iterable(map(ids_of, self._units(part))))

    def encode_batch_ids(self, texts: Iterable[str]) -> tuple[Ids, NDArray[np.int64]]:
        """Encode many texts to ids without special tokens; the fast way for corpora.

        Returns all ids, int32 `[tokens]`, and the number of ids of each text, int64 `[texts]`.
        """
        return joined_rows(map(self.encode_ids, texts))

    def encode_word_ids(self, words: Iterable[str]) -> tuple[Ids, NDArray[np.int64]]:
        """Encode single words; return all ids, int32 `[tokens]`, and their counts, int64 `[words]`.

        The ids are those of transformers' `is_split_into_words=True`.
        """
        return self.encode_batch_ids(words)

    @abstractmethod
    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Decode ids to text.

        Raises:
            InputError: an id outside the vocabulary.
        """

    def num_special_tokens(self, num_texts: int) -> int:
        """Count the special tokens around one text or two."""
        # [CLS], a [SEP] after each text, and between two texts the further separators of RoBERTa
        return 1 + num_texts + (num_texts - 1) * (self.num_separators - 1)

    def build_row(self, parts: Sequence[Sequence[int] | NDArray[Any]]) -> Row:
        """Build the row [CLS] A [SEP] or [CLS] A [SEP] B [SEP].

        `parts` are the ids of one text or two, each `[tokens]`.
        """
        row = [self.cls_id]
        starts = []
        for number, part in enumerate(parts):
            if number > 0:  # the text before has one separator at its end already
                row += [self.sep_id] * (self.num_separators - 1)
            starts.append(len(row))
            row += [*part, self.sep_id]
        type_ids = _type_ids_of_one_text(len(row))
        if len(parts) == 2:
            type_ids = type_ids.copy()
            type_ids[starts[1] :] = self.pair_type_id
        return Row(np.asarray(row, dtype=np.int32), type_ids, tuple(starts))

    def _encode_text(self, text: str) -> TextTokens:
        """Encode a text to tokens with their offsets, without special tokens around it."""
        result = TextTokens([], [], [])
        for part in self._raw_tokens.split(text):
            content = text[part.start : part.stop]
            if part.id is not None:  # an added token
                result.extend([PieceAt(part.id, content, 0, len(content))], part.start)
            elif self._normalized_tokens:
                self._encode_normalized(content, part.start, result)
            else:
                self._encode_ordinary(content, part.start, result)
        return result

    def _encode_ordinary(self, text: str, position: int, result: TextTokens) -> None:
        """Append the tokens of ordinary text, whose first character has index `position`."""
        for unit in self._units(text):
            result.extend(self._unit_pieces[unit], position)
            position += len(unit) + self.unit_gap

    def _units(self, text: str) -> Iterable[str]:
        """Split ordinary text into parts that are normalized and cut independently."""
        return [text]

    @abstractmethod
    def _compute_ids(self, unit: str) -> tuple[int, ...]:
        """Compute the ids of a unit of `_units`; for byte-level BPE, of a word."""

    def _locate_pieces(self, unit: str) -> tuple[PieceAt, ...]:
        """Compute the tokens of a unit of `_units`, with offsets in the unit."""
        return tuple(self._locate_normalized(*self._align(unit)))

    def _align(self, text: str) -> tuple[str, list[int]]:
        """Normalize text; also return the index in `text` of each character's origin."""
        raise NotImplementedError

    def _locate_normalized(self, text: str, origins: Sequence[int]) -> Iterable[PieceAt]:
        """Yield the tokens of normalized text, located in the original text by `origins`."""
        raise NotImplementedError

    def _encode_normalized(self, text: str, position: int, result: TextTokens) -> None:
        """Append the tokens of text, normalized as a whole to find added tokens in it."""
        normalized, origins = self._align(text)
        for part in self._normalized_tokens.split(normalized):
            span = slice(part.start, part.stop)
            content, part_origins = normalized[span], origins[span]
            if part.id is None:
                result.extend(self._locate_normalized(content, part_origins), position)
            else:
                token_at = PieceAt(part.id, content, part_origins[0], part_origins[-1] + 1)
                result.extend([token_at], position)

    def _ids_of(self, text: str, encode: Callable[[str], Iterable[int]]) -> list[int]:
        """Join the ids of added tokens and those that `encode` gives for the text between them."""
        ids: list[int] = []
        for part in self._raw_tokens.split(text):
            if part.id is None:
                ids += encode(text[part.start : part.stop])
            else:
                ids.append(part.id)
        return ids

    def _check_ids(self, ids: Sequence[int]) -> None:
        wrong = [id_ for id_ in ids if not 0 <= id_ < self.vocab_size]
        if wrong:
            raise InputError(
                f"token id {wrong[0]} is not in the vocabulary, which has ids 0 to "
                f"{self.vocab_size - 1:,}. Use the tokenizer that the ids were made with."
            )

    def _kept_tokens(self, ids: Sequence[int], skip_special_tokens: bool) -> Iterator[str]:
        """Yield the tokens to decode; ids may be numbers of numpy or torch, too."""
        ids = list(map(int, ids))
        self._check_ids(ids)
        skipped = self._skipped_ids if skip_special_tokens else ()
        return (self._decoded[id_] for id_ in ids if id_ not in skipped)

    def _room(self, lengths: Sequence[int], max_length: int) -> int:
        """Return how many tokens of the texts fit beside the special tokens of a row.

        `lengths` has the number of tokens of each text.

        Raises:
            ConfigError: `max_length` has no room for the special tokens.
        """
        num_special = self.num_special_tokens(len(lengths))
        if max_length < num_special:
            raise ConfigError(
                f"max_length is {max_length}, but {self.cls_token} and {self.sep_token} alone take "
                f"{num_special} tokens. Choose {num_special + len(lengths)} or more."
            )
        return max_length - num_special

    def _assemble(self, texts: Sequence[TextTokens], num_kept: Sequence[int]) -> Encoding:
        """Put special tokens around the kept part of each text."""
        row = self.build_row(
            [part.ids[:length] for part, length in zip(texts, num_kept, strict=True)]
        )
        ids = row.ids.tolist()
        tokens = [self.vocab[id_] for id_ in ids]
        offsets = [(0, 0)] * len(ids)
        sequence_ids: list[int | None] = [None] * len(ids)
        for number, (part, length, start) in enumerate(
            zip(texts, num_kept, row.starts, strict=True)
        ):
            columns = slice(start, start + length)
            tokens[columns] = part.tokens[:length]
            offsets[columns] = part.offsets[:length]
            sequence_ids[columns] = [number] * length
        return Encoding(
            ids=ids,
            type_ids=row.type_ids.tolist(),
            tokens=tokens,
            offsets=offsets,
            special_tokens_mask=[int(number is None) for number in sequence_ids],
            sequence_ids=sequence_ids,
            num_truncated=sum(len(part.ids) for part in texts) - sum(num_kept),
        )


def joined_rows(rows: Iterable[Sequence[int]]) -> tuple[Ids, NDArray[np.int64]]:
    """Concatenate lists of ids to int32 `[tokens]`; also return their lengths, int64 `[rows]`."""
    rows = list(rows)
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    return np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum())), lengths


def is_word_start(text: str) -> bool:
    """Return whether a piece with this text begins a word wherever it stands.

    It does if it begins with white space, punctuation or a Chinese character; after a letter or
    digit it may continue a word.
    """
    first = text[:1]
    return bool(first) and any(
        first in code_ranges(name) for name in ("WHITESPACE", "PUNCTUATION", "CHINESE")
    )


def truncated_lengths(lengths: Sequence[int], room: int) -> list[int]:
    """Return the tokens to keep of each text so that together they fit into `room`.

    The longer text is cut first. If both must be cut, each gets half of `room`, and the odd token
    goes to the longer text (to the second of two equals), as in the `tokenizers` library.

    >>> truncated_lengths([5, 300], room=125), truncated_lengths([200, 300], room=125)
    ([5, 120], [62, 63])
    """
    if sum(lengths) <= room:
        return list(lengths)
    if len(lengths) == 1:
        return [room]
    shorter = min(*lengths, room // 2)
    rooms = [shorter, room - shorter]
    return rooms if lengths[0] <= lengths[1] else rooms[::-1]


def check_vocabulary(vocab: Sequence[str], special_tokens: Sequence[str]) -> None:
    """Refuse a vocabulary that is empty, repeats an entry, or lacks a special token."""
    if not vocab:
        raise ConfigError("the vocabulary is empty. It needs one piece per line.")
    first_ids: dict[str, int] = {}
    for id_, token in enumerate(vocab):
        first = first_ids.setdefault(token, id_)
        if first != id_:
            raise ConfigError(
                f"the vocabulary has {token!r} twice, as ids {first:,} and {id_:,} (in a "
                f"vocab.txt, lines {first + 1:,} and {id_ + 1:,}). Entries must be distinct: "
                "rename one of the two."
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


@lru_cache(maxsize=1 << 10)
def _type_ids_of_one_text(length: int) -> NDArray[np.int32]:
    """Return zeros that all rows of this length share, which saves 130 bytes a row."""
    zeros = np.zeros(length, dtype=np.int32)
    zeros.setflags(write=False)
    return zeros


def special_added_tokens(
    tokenizer_class: type[Tokenizer], names: Mapping[str, str]
) -> list[AddedToken]:
    """Return the special tokens as added tokens, for tokenizers that are given none.

    Args:
        names: special tokens, such as `mask_token`, that differ from the class's `default_tokens`.
    """
    mask_takes_space = tokenizer_class.adds_special_tokens
    return [
        AddedToken(names.get(name, token), lstrip=mask_takes_space and name == "mask_token")
        for name, token in tokenizer_class.default_tokens.items()
    ]

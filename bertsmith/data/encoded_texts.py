"""Encode texts and pairs of texts as rows of token ids.

Texts are encoded once and kept, so that an epoch costs no tokenizing.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import starmap
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertsmith.errors import CheckpointError, ConfigError, InputError, option
from bertsmith.tokenization.tokenizer import Tokenizer, truncated_lengths
from bertsmith.tokenization.tokenizer_files import TOKENIZER_CONFIG_FILE

Text = str | tuple[str, str]
"""A text, or a pair of texts."""


@dataclass(frozen=True, eq=False)
class TokenRows:
    """Rows of int32 `[tokens]`, one after another in `flat`: arrays take 160 bytes more for each.

    `starts` is int64 `[rows + 1]`.
    """

    flat: NDArray[np.int32]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> NDArray[np.int32]:
        row = range(len(self))[row]
        return self.flat[self.starts[row] : self.starts[row + 1]]

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        return map(self.__getitem__, range(len(self)))


@dataclass(frozen=True)
class EncodedTexts:
    """Token ids and type ids of texts, int32 `[tokens]` for each.

    `num_cut` is the number of tokens truncated from each text.
    """

    ids: TokenRows
    type_ids: TokenRows
    num_cut: tuple[int, ...]

    @classmethod
    def of(cls, rows: Iterable[tuple[NDArray[np.int32], NDArray[np.int32], int]]) -> "EncodedTexts":
        """Collect the token ids, the type ids and the number of truncated tokens of each text.

        Ids are int32 `[tokens]`: their bytes are taken as such.
        """
        ids = array("i")
        type_ids = array("i")
        starts = array("q", [0])
        num_cut = array("q")
        for row, types, cut in rows:
            ids.frombytes(row.tobytes())
            type_ids.frombytes(types.tobytes())
            starts.append(len(ids))
            num_cut.append(cut)
        row_starts = np.asarray(starts)
        return cls(
            TokenRows(np.asarray(ids), row_starts),
            TokenRows(np.asarray(type_ids), row_starts),
            tuple(num_cut),
        )

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def lengths(self) -> list[int]:
        """Number of tokens of each text, special tokens included."""
        return np.diff(self.ids.starts).tolist()

    def renumbered(self, numbers: NDArray[np.int32]) -> "EncodedTexts":
        """Return a copy with `numbers[i]` in place of token id `i`.

        `numbers` are int32 `[vocabulary]`.
        """
        return replace(self, ids=replace(self.ids, flat=numbers[self.ids.flat]))


def encode_texts(
    tokenizer: Tokenizer, texts: Iterable[tuple[str, str | None]], max_length: int
) -> EncodedTexts:
    """Encode texts, each alone or with its pair, cut to `max_length` tokens (longest first).

    `max_length` counts special tokens, too.
    """

    def encode(text: str, pair: str | None) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
        parts = [tokenizer.encode_ids(part) for part in (text, pair) if part is not None]
        lengths = [len(part) for part in parts]
        kept_lengths = truncated_lengths(
            lengths, max_length - tokenizer.num_special_tokens(len(parts))
        )
        row = tokenizer.build_row(
            [part[:length] for part, length in zip(parts, kept_lengths, strict=True)]
        )
        return row.ids, row.type_ids, sum(lengths) - sum(kept_lengths)

    return EncodedTexts.of(starmap(encode, texts))


def as_items(values: object, name: str, cure: str = 'list(frame["text"])') -> Iterable[Any]:
    """Return what yields the items of a user's list, array, table column or iterator.

    `name` is that of the argument; `cure` says how a table becomes a list.

    Raises:
        InputError: a table or mapping, a set, or nothing that has items.
    """
    if is_table(values) or isinstance(values, Mapping):
        raise InputError(
            f"{name} is a whole {name_type(values)}. Pass one column or a list, such as {cure}."
        )
    if isinstance(values, Set):
        raise InputError(f"{name}: found {name_type(values)}, which has no order. Give a list.")
    if hasattr(values, "to_pylist"):  # an array of pyarrow, whose items are no strings
        return (item.as_py() for item in values)  # type: ignore[attr-defined]
    if hasattr(values, "__array__") and not isinstance(values, Iterable):
        values = np.asarray(values)
    has_items = isinstance(values, Iterable) and getattr(values, "ndim", 1) > 0
    if not has_items or isinstance(values, str | bytes | bytearray):
        raise InputError(f"{name}: found {name_type(values)}. Give a list.")
    return values  # type: ignore[return-value]


def as_list(values: object, name: str, cure: str = 'list(frame["text"])') -> list[Any]:
    """Convert what `as_items` takes to a list.

    Raises:
        InputError: as `as_items`.
    """
    return list(as_items(values, name, cure))


def is_table(value: object) -> bool:
    """Return whether something is a table with named columns."""
    # pandas and polars have `columns`, pyarrow and datasets `column_names`.
    return any(hasattr(type(value), name) for name in ("columns", "column_names"))


def check_no_pair(value: object, name: str) -> None:
    """Refuse a tuple of two strings where several texts are meant.

    Raises:
        InputError: it is one: it may be one pair, or two texts.
    """
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(t, str) for t in value):
        raise InputError(
            f"{name}: found a tuple of two strings. Give [(a, b)] for a pair of texts, or "
            "[a, b] for two."
        )


def name_type(value: object) -> str:
    """Name the type of a wrong value, with a number's value or a sequence's item types."""
    kind = type(value).__name__
    if isinstance(value, Number):
        return f"{kind} {value}"
    if isinstance(value, tuple | list):
        names = [type(item).__name__ for item in value[:3]] + ["..."] * (len(value) > 3)
        return f"{kind} of {', '.join(names) or 'nothing'}"
    return kind


def check_string(name: str, value: object) -> None:
    """Check that a value is a string.

    Raises:
        InputError: it is not; says what it is.
    """
    if not isinstance(value, str):
        raise InputError(f"{name}: found {name_type(value)}. Give a string.")


def iter_pairs(texts: Iterable[Text]) -> Iterator[tuple[str, str | None]]:
    """Yield texts as pairs; the second of a single text is None.

    Raises:
        InputError: something is no text or pair of texts; names its place.
    """
    check_no_pair(texts, "texts")
    for index, text in enumerate(as_items(texts, "texts")):
        match text:
            case str():
                yield text, None
            case (str() as first, str() as second):
                yield first, second
            case _:
                raise InputError(
                    f"texts[{index}]: found {name_type(text)}. Give a string, or a tuple of two "
                    "strings for a pair; leave out texts that are missing."
                )


def max_text_length(tokenizer: Tokenizer, num_positions: int, requested: int | None) -> int:
    """Return the requested maximum length, else all that the model can read.

    Raises:
        ConfigError: more was requested than the model has positions, or too little for a token
            besides the special tokens of a pair.
        CheckpointError: the tokenizer's own limit is that low.
    """
    if requested is None:
        length = tokenizer.model_max_length
        check_stored_length(tokenizer, length, f"{TOKENIZER_CONFIG_FILE}: model_max_length")
        return min(num_positions, length)
    fewest = _fewest_tokens(tokenizer)
    if not fewest <= requested <= num_positions:
        raise ConfigError(
            f"{option('max_length')}: found {requested}; this model reads {fewest} to "
            f"{num_positions} tokens. Choose a number in that range; what becomes of longer texts "
            "is counted."
        )
    return requested


def _fewest_tokens(tokenizer: Tokenizer) -> int:
    """Count the special tokens of a pair, and one besides them."""
    return tokenizer.num_special_tokens(2) + 1


def check_stored_length(tokenizer: Tokenizer, length: int, location: str) -> None:
    """Check that a folder lets its model read at least `_fewest_tokens` tokens.

    Raises:
        CheckpointError: it lets it read fewer.
    """
    if length < (fewest := _fewest_tokens(tokenizer)):
        raise CheckpointError(
            f"{location} is {length}; allowed are {fewest} tokens or more. Correct it in the "
            "model's folder, or copy the file again."
        )

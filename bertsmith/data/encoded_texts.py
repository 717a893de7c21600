"""Encode texts and pairs of texts as rows of token ids, and check texts from Python callers.

Texts are encoded once and the ids are kept, so that epochs need no tokenizing.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import starmap
from numbers import Number
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.row_builder import RowBuilder
from bertsmith.errors import CheckpointError, ConfigError, InputError, option
from bertsmith.tokenization.tokenizer import Tokenizer, truncated_lengths
from bertsmith.tokenization.tokenizer_files import TOKENIZER_CONFIG_FILE

Text = str | tuple[str, str]
"""A text, or a pair of texts."""


@dataclass(frozen=True, eq=False)
class TokenRows:
    """Rows of int32 `[tokens]`, one after another in `flat`.

    `starts` is int64 `[rows + 1]`. An array for each row would take 160 more bytes per row.
    """

    flat: NDArray[np.int32]
    starts: NDArray[np.int64]

    @classmethod
    def concat(cls, parts: Sequence["TokenRows"]) -> "TokenRows":
        """Join the rows of several parts, in order."""
        lengths = np.concatenate([np.diff(part.starts) for part in parts])
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        return cls(np.concatenate([part.flat for part in parts]), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> NDArray[np.int32]:
        row = range(len(self))[row]  # counts a negative index from the end, and checks any other
        return self.flat[self.starts[row] : self.starts[row + 1]]

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        return map(self.__getitem__, range(len(self)))


@dataclass(frozen=True)
class EncodedTexts:
    """Token ids and type ids of texts, int32 `[tokens]` for each text.

    `num_cut` is the number of tokens truncated from each text.
    """

    ids: TokenRows
    type_ids: TokenRows
    num_cut: tuple[int, ...]

    @classmethod
    def of(cls, rows: Iterable[tuple[NDArray[np.int32], NDArray[np.int32], int]]) -> "EncodedTexts":
        """Collect the token ids, the type ids and the number of truncated tokens of each text.

        Ids must be int32 `[tokens]`, since their bytes are copied.
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

    @classmethod
    def concat(cls, parts: Sequence["EncodedTexts"]) -> "EncodedTexts":
        """Join the texts of several parts, in order."""
        return cls(
            TokenRows.concat([part.ids for part in parts]),
            TokenRows.concat([part.type_ids for part in parts]),
            tuple(cut for part in parts for cut in part.num_cut),
        )

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def lengths(self) -> list[int]:
        """Number of tokens of each text, with special tokens."""
        return np.diff(self.ids.starts).tolist()

    def remap_ids(self, new_ids: NDArray[np.int32]) -> "EncodedTexts":
        """Return a copy with `new_ids[i]` in place of token id `i`.

        `new_ids` are int32 `[vocabulary]`.
        """
        return replace(self, ids=replace(self.ids, flat=new_ids[self.ids.flat]))


TruncationSide = Literal["left", "right"]
"""The end of a text at which tokens are cut off, as `truncation_side` of transformers."""


def encode_texts(
    tokenizer: RowBuilder,
    texts: Iterable[tuple[str, str | None]],
    max_length: int,
    truncation_side: TruncationSide = "right",
) -> EncodedTexts:
    """Encode texts, alone or in pairs, cut to `max_length` tokens with special tokens.

    Of a pair, the longer text is cut first. The second of the two strings is None for a single
    text. `tokenizer` is a `Tokenizer`, or another object that builds rows from ids.
    """

    def encode(text: str, pair: str | None) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
        parts = [tokenizer.encode_ids(part) for part in (text, pair) if part is not None]
        lengths = [len(part) for part in parts]
        kept_lengths = truncated_lengths(
            lengths, max_length - tokenizer.num_special_tokens(len(parts))
        )
        kept = [
            part[:length] if truncation_side == "right" else part[len(part) - length :]
            for part, length in zip(parts, kept_lengths, strict=True)
        ]
        row = tokenizer.build_row(kept)
        return row.ids, row.type_ids, sum(lengths) - sum(kept_lengths)

    return EncodedTexts.of(starmap(encode, texts))


def as_items(values: object, name: str, example: str = 'list(frame["text"])') -> Iterable[Any]:
    """Return an iterable over the items of a user's list, array, table column or iterator.

    `name` is the argument's name; `example` shows how to make a list from a table.

    Raises:
        InputError: the values are a table, a mapping or a set, or have no items.
    """
    if is_table(values) or isinstance(values, Mapping):
        raise InputError(
            f"{name} is a whole {name_type(values)}. Pass one column or a list, such as {example}."
        )
    if isinstance(values, Set):
        raise InputError(f"{name}: found {name_type(values)}, which has no order. Give a list.")
    if hasattr(values, "to_pylist"):  # an array of pyarrow, whose items are not strings
        return (item.as_py() for item in values)  # type: ignore[attr-defined]
    if hasattr(values, "__array__") and not isinstance(values, Iterable):
        values = np.asarray(values)
    has_items = isinstance(values, Iterable) and getattr(values, "ndim", 1) > 0
    if not has_items or isinstance(values, str | bytes | bytearray):
        raise InputError(f"{name}: found {name_type(values)}. Give a list.")
    return values  # type: ignore[return-value]


def as_list(values: object, name: str, example: str = 'list(frame["text"])') -> list[Any]:
    """Convert a user's list, array, table column or iterator to a list.

    Raises:
        InputError: as `as_items`.
    """
    return list(as_items(values, name, example))


def is_table(value: object) -> bool:
    """Return whether a value is a table with named columns."""
    # pandas and polars have `columns`, pyarrow and datasets `column_names`.
    return any(hasattr(type(value), name) for name in ("columns", "column_names"))


def check_no_pair(value: object, name: str) -> None:
    """Refuse a tuple of two strings as a list of texts.

    Raises:
        InputError: the value is a tuple of two strings, which may mean one pair or two texts.
    """
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(t, str) for t in value):
        raise InputError(
            f"{name}: found a tuple of two strings. Give [(a, b)] for a pair of texts, or "
            "[a, b] for two."
        )


def name_type(value: object) -> str:
    """Name the type of a wrong value; for a number with its value, for a list with item types."""
    name = type(value).__name__
    if isinstance(value, Number):
        return f"{name} {value}"
    if isinstance(value, tuple | list):
        item_types = [type(item).__name__ for item in value[:3]]
        if len(value) > 3:
            item_types.append("...")
        return f"{name} of {', '.join(item_types) or 'nothing'}"
    return name


def check_string(name: str, value: object) -> None:
    """Check that a value is a string.

    Raises:
        InputError: the value is no string; the message names its type.
    """
    if not isinstance(value, str):
        raise InputError(f"{name}: found {name_type(value)}. Give a string.")


def iter_pairs(texts: Iterable[Text]) -> Iterator[tuple[str, str | None]]:
    """Yield texts as pairs; the second of a single text is None.

    Raises:
        InputError: an item is not a text or pair of texts; names its position.
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
    """Return the requested maximum length of a row, or else the model's maximum, in tokens.

    The model's maximum is `num_positions`, the number of positions that it reads, or the limit of
    the tokenizer if that is less.

    Raises:
        ConfigError: the requested length exceeds the model's positions, or leaves no room for a
            token beside the special tokens of a pair.
        CheckpointError: the tokenizer's limit leaves no room for such a token.
    """
    if requested is None:
        length = tokenizer.model_max_length
        check_stored_length(tokenizer, length, f"{TOKENIZER_CONFIG_FILE}: model_max_length")
        return min(num_positions, length)
    fewest = _fewest_tokens(tokenizer)
    if not (isinstance(requested, int | np.integer) and fewest <= requested <= num_positions):
        raise ConfigError(
            f"{option('max_length')}: found {requested!r}; this model reads {fewest} to "
            f"{num_positions} tokens. Choose a number in that range. Longer texts are divided or "
            "cut, and counted."
        )
    return requested


def _fewest_tokens(tokenizer: Tokenizer) -> int:
    """Count the special tokens of a pair and one more token."""
    return tokenizer.num_special_tokens(2) + 1


def check_stored_length(tokenizer: Tokenizer, length: int, location: str) -> None:
    """Check that the maximum length stored in a folder is at least `_fewest_tokens`.

    Raises:
        CheckpointError: the length is less.
    """
    if length < (fewest := _fewest_tokens(tokenizer)):
        raise CheckpointError(
            f"{location} is {length}; allowed are {fewest} tokens or more. Correct it in the "
            "model's folder, or copy the file again."
        )

"""Conversion of users' data to a file path or to rows with the usual column names."""

import glob
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertsmith.data.encoded_texts import as_items, as_list, check_no_pair, is_table, name_type
from bertsmith.data.json_rows import as_json, list_names
from bertsmith.data.text_files import ExampleSource
from bertsmith.errors import InputError

CHUNK_ROWS = 1024
Row = dict[str, Any]


@dataclass(frozen=True)
class TableRows:
    """The rows of a table in memory, a dict for each, made while they are read.

    Tables of pandas, polars, pyarrow and datasets are known by what they can do, as are mappings
    from names to columns.
    """

    table: Any

    def __post_init__(self) -> None:
        if self._can("collect"):  # polars, lazily
            raise InputError(
                f"table: found {name_type(self.table)}. Give its rows: frame.collect()."
            )
        if isinstance(self.table, Mapping) and any(map(is_table, self.table.values())):
            raise InputError(
                f"table: found tables by name ({list_names(self.table)}). Give one of them, such "
                f"as data['{next(iter(self.table))}']."
            )
        # A dict would keep the last of them.
        twice = [name for name, count in Counter(map(str, self.names)).items() if count > 1]
        if twice:
            raise InputError(
                f"table: several columns are called '{twice[0]}'. Rename all but the right one."
            )

    def __iter__(self) -> Iterator[Row]:
        table = self.table
        if isinstance(table, Mapping):
            columns = {name: as_list(table[name], str(name)) for name in table}
            if not columns:
                raise InputError("table: found no columns. Give a table that has some.")
            _check_lengths({name: len(column) for name, column in columns.items()})
            rows = zip(*columns.values(), strict=True)
            return (dict(zip(columns, row, strict=True)) for row in rows)
        if self._can("iter_rows"):  # polars
            return iter(table.iter_rows(named=True))
        if self._can("iloc"):  # pandas, where what is missing has many forms
            chunks = (table.iloc[i : i + CHUNK_ROWS] for i in range(0, len(table), CHUNK_ROWS))
            known = (chunk.astype(object).where(chunk.notna(), None) for chunk in chunks)
            return itertools.chain.from_iterable(chunk.to_dict("records") for chunk in known)
        if self._can("to_batches"):  # pyarrow
            return itertools.chain.from_iterable(batch.to_pylist() for batch in table.to_batches())
        if self._can("to_pylist"):  # a batch of pyarrow
            return iter(table.to_pylist())
        classes = _classes_of_words(table)
        return (
            {
                **row,
                **{key: [names[number] for number in row[key]] for key, names in classes.items()},
            }
            for row in table
        )

    @property
    def names(self) -> list[Any]:
        """The names of the columns; empty where they are not known before the rows are read."""
        if isinstance(self.table, Mapping):
            return list(self.table)
        name = "column_names" if self._can("column_names") else "columns"
        names = getattr(self.table, name, ())
        return [] if names is None else list(names)

    @property
    def num_rows(self) -> int:
        if isinstance(self.table, Mapping):
            return max((len(as_list(column, "")) for column in self.table.values()), default=0)
        return int(self.table.num_rows if self._can("num_rows") else len(self.table))

    def _can(self, name: str) -> bool:
        """Ask the table's type, since a column of that name is an attribute too."""
        return hasattr(type(self.table), name)


@dataclass(frozen=True)
class BuiltRows:
    """Rows of items, such as texts or rows without labels, and of labels, made while read."""

    items: Iterable[Any]
    labels: Iterable[Any]
    build: Callable[[Any, Any], Row]

    def __iter__(self) -> Iterator[Row]:
        return map(self.build, self.items, self.labels)


def as_named(given: Any, argument: str) -> Path | TableRows | Sequence[Mapping[str, Any]] | None:
    """Return a file or rows with names; None for plain items such as texts.

    Raises:
        InputError: a tuple of two strings, which may be a pair or two texts.
    """
    if isinstance(given, os.PathLike):
        return Path(given)
    if isinstance(given, TableRows):
        return given
    if is_table(given) or isinstance(given, Mapping):
        return TableRows(given)
    check_no_pair(given, argument)
    if isinstance(given, Sequence) and given and isinstance(given[0], Mapping):
        return given
    return None


def as_source(
    given: Any, labels: Any, build: Callable[[Any, Any], Row], *, unlabelled: bool
) -> ExampleSource:
    """Return the source of labelled examples that the arguments of `fit` or `score` stand for.

    Args:
        given: X: a path, a table, rows, or items such as texts.
        labels: y, or None where X holds the labels.
        build: makes a row of an item, which may be a row without label, and its label.
        unlabelled: whether items need no labels.

    Raises:
        InputError: something else, labels are missing, or there are not as many as items.
    """
    if isinstance(given, str):
        check_names_file(given)
        given = Path(given)
    if isinstance(given, Iterator):
        given = list(given)  # it is read more than once
    if isinstance(labels, str):
        raise InputError(
            f"y: found the string '{labels[:40]}'. Give a label for each item; or name the column "
            "of a table's labels with label_column."
        )
    named = as_named(given, "X")
    if isinstance(named, Path):
        if labels is not None:
            raise InputError("y: found labels beside a file. Name its column with label_column.")
        return named
    if labels is None:
        if named is not None:
            return named
        items = as_list(plain_column(given), "X")
        if not unlabelled:
            raise InputError(
                f"y: not given (X: {name_type(given)}). Give a label for each item: "
                "fit(texts, labels); or a table that holds both."
            )
        return BuiltRows(items, itertools.repeat(None), build)
    values = as_labels(labels)
    rows = as_list(plain_column(given), "X") if named is None else named
    count = rows.num_rows if isinstance(rows, TableRows) else len(rows)
    _check_lengths({"X": count, "y": len(values)})
    return BuiltRows(rows, values, build)


def as_labels(given: Any) -> list[Any]:
    """Return labels as a list; of a table or matrix of 0 and 1, the columns with 1 in each row.

    Raises:
        InputError: other values in a table, or nothing that has items.
    """
    names = matrix_names(given)
    if names is None:
        return as_list(plain_column(given), "y", 'list(frame["label"])')
    matrix = [list(row.values()) for row in TableRows(given)] if is_table(given) else given.tolist()
    for place, row in enumerate(matrix):
        if not all(isinstance(value, int | float) and value in (0, 1) for value in row):
            raise InputError(
                f"y[{place}]: found {row[:5]}; a table or matrix holds 1 and 0, a column for each "
                'label. Give one column of labels as a list, such as list(frame["label"]).'
            )
    return [[name for name, value in zip(names, row, strict=True) if value] for row in matrix]


def matrix_names(given: Any) -> list[str] | None:
    """Return the names of the columns of a table or matrix of labels; None for a list."""
    if is_table(given):
        return [str(name).strip() for name in TableRows(given).names]
    if isinstance(given, np.ndarray) and given.ndim == 2:
        return [str(number) for number in range(given.shape[1])]
    return None


def label_name(label: Any) -> str:
    """Return the name of a class as the reader writes it."""
    return label.strip() if isinstance(label, str) else json.dumps(as_json(label), default=str)


def plain_column(given: Any) -> Any:
    """Return an iterator of a column of pandas or polars, missing values as None; or `given`."""
    if not hasattr(given, "to_frame"):
        return given
    return (value for row in TableRows(given.to_frame()) for value in row.values())


def as_values(item: Any) -> tuple[Any, ...]:
    """Return the values of an item: of a pair both, of a text the text alone."""
    return tuple(item) if isinstance(item, tuple | list | np.ndarray) else (item,)


def peek(given: Any) -> Any:
    """Return an iterator of dicts as `TableRows`, and all else as it is."""
    if not isinstance(given, Iterator):
        return given
    first = list(itertools.islice(given, 1))
    items = itertools.chain(first, given)
    return TableRows(items) if first and isinstance(first[0], Mapping) else items


def prediction_items(given: Any) -> Iterable[Any]:
    """Return items for a predictor, rows of arrays as tuples."""
    items = as_items(given, "X")
    return map(tuple, items) if getattr(given, "ndim", 1) > 1 else items


def check_names_file(given: str) -> None:
    """Raise InputError for a string that names no file: it may be a text."""
    # A file may be called `a[1].csv`, which as a pattern does not match itself.
    if not os.path.lexists(given) and next(glob.iglob(given), None) is None:  # noqa: PTH207
        raise InputError(
            f"{given[:80]}: no such file or folder. Check the spelling; texts are given as a list, "
            "[text, ...]."
        )


def _classes_of_words(table: Any) -> dict[str, list[str]]:
    """Return the names of the classes in columns of `datasets` that number one for each word."""
    features = getattr(table, "features", None) or {}
    classes: dict[str, Any] = {
        key: getattr(kind, "feature", None) for key, kind in features.items()
    }
    return {key: kind.names for key, kind in classes.items() if hasattr(kind, "names")}


def _check_lengths(lengths: Mapping[str, int]) -> None:
    (first, count), *others = lengths.items()
    for name, other in others:
        if other != count:
            raise InputError(
                f"{name}: found {other:,} items, and {first} has {count:,}. Give one for each."
            )

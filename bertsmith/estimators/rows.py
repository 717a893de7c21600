"""Conversion of users' data to a file path or to rows with the usual column names."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertsmith.data.encoded_texts import as_items, as_list, is_table, name_type
from bertsmith.data.table_rows import Row, TableRows, as_named, check_lengths, check_names_file
from bertsmith.data.text_files import ExampleSource
from bertsmith.errors import InputError


@dataclass(frozen=True)
class BuiltRows:
    """Rows of items, such as texts or rows without labels, and of labels, made while read."""

    items: Iterable[Any]
    labels: Iterable[Any]
    build: Callable[[Any, Any], Row]

    def __iter__(self) -> Iterator[Row]:
        return map(self.build, self.items, self.labels)


def as_source(
    data: Any, labels: Any, build: Callable[[Any, Any], Row], *, unlabelled: bool
) -> ExampleSource:
    """Return the source of labelled examples that the arguments of `fit` or `score` stand for.

    Args:
        data: X: a path, a table, rows, or items such as texts.
        labels: y, or None where X holds the labels.
        build: makes a row of an item, which may be a row without label, and its label.
        unlabelled: whether items need no labels.

    Raises:
        InputError: something else, labels are missing, or there are not as many as items.
    """
    if isinstance(data, str):
        check_names_file(data)
        data = Path(data)
    if isinstance(data, Iterator):
        data = list(data)  # it is read more than once
    if isinstance(labels, str):
        raise InputError(
            f"y: found the string '{labels[:40]}'. Give a label for each item; or name the column "
            "of a table's labels with label_column."
        )
    named = as_named(data, "X")
    if isinstance(named, Path):
        if labels is not None:
            raise InputError("y: found labels beside a file. Name its column with label_column.")
        return named
    if labels is None:
        if named is not None:
            return named
        items = as_list(plain_column(data), "X")
        if not unlabelled:
            raise InputError(
                f"y: not given (X: {name_type(data)}). Give a label for each item: "
                "fit(texts, labels); or a table that holds both."
            )
        return BuiltRows(items, itertools.repeat(None), build)
    values = as_labels(labels)
    rows = as_list(plain_column(data), "X") if named is None else named
    count = rows.num_rows if isinstance(rows, TableRows) else len(rows)
    check_lengths({"X": count, "y": len(values)})
    return BuiltRows(rows, values, build)


def as_labels(labels: Any) -> list[Any]:
    """Return labels as a list; of a table or matrix of 0 and 1, the columns with 1 in each row.

    Raises:
        InputError: other values in a table, or nothing that has items.
    """
    labels = as_dense(labels)
    names = matrix_names(labels)
    if names is None:
        return as_list(plain_column(labels), "y", 'list(frame["label"])')
    matrix = (
        [list(row.values()) for row in TableRows(labels)] if is_table(labels) else labels.tolist()
    )
    for index, row in enumerate(matrix):
        if not all(isinstance(value, int | float) and value in (0, 1) for value in row):
            raise InputError(
                f"y[{index}]: found {row[:5]}; a table or matrix holds 1 and 0, a column for each "
                'label. Give one column of labels as a list, such as list(frame["label"]).'
            )
    return [[name for name, value in zip(names, row, strict=True) if value] for row in matrix]


def matrix_names(labels: Any) -> list[str] | None:
    """Return the names of the columns of a table or matrix of labels; None for a list."""
    labels = as_dense(labels)
    if is_table(labels):
        return [str(name) for name in TableRows(labels).names]
    if isinstance(labels, np.ndarray) and labels.ndim == 2:
        return [str(number) for number in range(labels.shape[1])]
    return None


def as_dense(labels: Any) -> Any:
    """Return a sparse matrix, as MultiLabelBinarizer gives it, as an array; others as they are."""
    return labels.toarray() if hasattr(labels, "toarray") else labels


def plain_column(column: Any) -> Any:
    """Return an iterator of a column of pandas or polars, missing values as None, or `column`."""
    if not hasattr(column, "to_frame"):
        return column
    return (value for row in TableRows(column.to_frame()) for value in row.values())


def as_values(item: Any) -> tuple[Any, ...]:
    """Return the values of an item: of a pair both, of a text the text alone."""
    return tuple(item) if isinstance(item, tuple | list | np.ndarray) else (item,)


def peek(data: Any) -> Any:
    """Return an iterator of dicts as `TableRows`, and all else as it is."""
    if not isinstance(data, Iterator):
        return data
    first = list(itertools.islice(data, 1))
    items = itertools.chain(first, data)
    return TableRows(items) if first and isinstance(first[0], Mapping) else items


def prediction_items(data: Any) -> Iterable[Any]:
    """Return items for a predictor, rows of arrays as tuples."""
    items = as_items(data, "X")
    return map(tuple, items) if getattr(data, "ndim", 1) > 1 else items

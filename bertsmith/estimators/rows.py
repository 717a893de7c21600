"""Convert the data of a call, such as X and y of `fit`, to a source of examples.

A source is the path of a file, a table, or rows, each of which has cells by the names of columns.
Items such as texts and their labels become rows with the default names.
"""

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
    """Rows that are built from items and labels when they are read.

    `build` makes a row from an item, such as a text, and its label. An item may itself be a row
    without a label; then `build` adds the column `added` to it. Messages that list the user's
    columns leave `added` out.
    """

    items: Iterable[Any]
    labels: Iterable[Any]
    build: Callable[[Any, Any], Row]
    added: str | None = None

    def __iter__(self) -> Iterator[Row]:
        return map(self.build, self.items, self.labels)


def as_source(
    data: Any,
    labels: Any,
    build: Callable[[Any, Any], Row],
    *,
    unlabelled: bool,
    label_column: str,
) -> ExampleSource:
    """Convert the arguments X and y of `fit` or `score` to a source of examples.

    Args:
        data: X: a path, a table, rows, or items such as texts.
        labels: y, or None if X holds the labels.
        build: makes a row from an item, which may be a row without a label, and its label.
        unlabelled: whether items need no labels.
        label_column: the column that `build` adds to an item that is a row.

    Raises:
        InputError: X is of another type or names no file, labels are missing, or there is not one
            label for each item.
    """
    if isinstance(data, str):
        check_names_file(data)
        data = Path(data)
    if isinstance(data, Iterator):
        data = list(data)  # a source is read more than once
    if isinstance(labels, str):
        raise InputError(
            f"y: found the string '{labels[:40]}'. Give a label for each item; or name the column "
            "of a table's labels with label_column."
        )
    source = as_named(data, "X")  # a file or a table; None for items such as texts
    if isinstance(source, Path):
        if labels is not None:
            raise InputError("y: found labels beside a file. Name its column with label_column.")
        return source
    if labels is None:
        if source is not None:
            return source
        items = as_list(plain_column(data), "X")
        if not unlabelled:
            raise InputError(
                f"y: not given (X: {name_type(data)}). Give a label for each item: "
                "fit(texts, labels); or a table that holds both."
            )
        return BuiltRows(items, itertools.repeat(None), build)
    label_list = as_labels(labels)
    examples = as_list(plain_column(data), "X") if source is None else source
    count = examples.num_rows if isinstance(examples, TableRows) else len(examples)
    check_lengths({"X": count, "y": len(label_list)})
    columns = examples.names if isinstance(examples, TableRows) else ()
    added = None if label_column in columns else label_column
    return BuiltRows(examples, label_list, build, added)


def as_labels(labels: Any) -> list[Any]:
    """Return labels as a list, one for each item.

    Labels may be a table or matrix of 0 and 1 with a row for each item. The label of an item is
    then the list of the names of the columns that have 1 in its row.

    Raises:
        InputError: a table or matrix holds other values, or `labels` has no items.
    """
    labels = as_dense(labels)
    names = matrix_names(labels)
    if names is None:
        return as_list(plain_column(labels), "y", example='list(frame["label"])')
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
    """Return the names of the columns of a table or matrix of labels; None for a list.

    The columns of a matrix are named by their numbers, from 0.
    """
    labels = as_dense(labels)
    if is_table(labels):
        return [str(name) for name in TableRows(labels).names]
    if isinstance(labels, np.ndarray) and labels.ndim == 2:
        return [str(number) for number in range(labels.shape[1])]
    return None


def as_dense(labels: Any) -> Any:
    """Convert a sparse matrix, such as MultiLabelBinarizer makes, to an array.

    Labels in another form are returned unchanged.
    """
    return labels.toarray() if hasattr(labels, "toarray") else labels


def plain_column(column: Any) -> Any:
    """Return an iterator over a column of pandas or polars, with None for missing values.

    An argument of another type is returned unchanged.
    """
    if not hasattr(column, "to_frame"):
        return column
    return (value for row in TableRows(column.to_frame()) for value in row.values())


def as_values(item: Any) -> tuple[Any, ...]:
    """Return the values of an item as a tuple: both texts of a pair, or one text."""
    return tuple(item) if isinstance(item, tuple | list | np.ndarray) else (item,)


def wrap_dicts(data: Any) -> Any:
    """Wrap an iterator of dicts, which are rows, as `TableRows`; return other data as it is.

    Another iterator is returned as a new one with the same items.
    """
    if not isinstance(data, Iterator):
        return data
    first = list(itertools.islice(data, 1))
    items = itertools.chain(first, data)
    return TableRows(items) if first and isinstance(first[0], Mapping) else items


def prediction_items(data: Any) -> Iterable[Any]:
    """Return the items of X for a predictor; the rows of a 2-D array become tuples."""
    items = as_items(data, "X")
    return map(tuple, items) if getattr(data, "ndim", 1) > 1 else items

"""Read the rows of tables in memory as dicts: pandas, polars, pyarrow, datasets, dicts of columns.

A column of `datasets` may hold the numbers of classes (`ClassLabel`), whose names the table knows.
"""

import glob
import itertools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from bertsmith.data.column_specs import find_column
from bertsmith.data.encoded_texts import as_list, check_no_pair, is_table, name_type
from bertsmith.data.json_rows import list_names
from bertsmith.errors import InputError, warn_once
from bertsmith.system.counts import count_noun

CHUNK_ROWS = 1024
"""Rows of a pandas table that are converted at once."""
Row = dict[str, Any]
SourceT = TypeVar("SourceT")


@dataclass(frozen=True)
class TableRows:
    """The rows of a table in memory; the dict of each row is made when the row is read.

    Tables of pandas, polars, pyarrow and datasets are recognized by their methods; mappings from
    names to columns are tables, too. The numbers of classes of `datasets` are replaced by the names
    of the classes, unless `are_classes_named` is False.
    """

    table: Any
    are_classes_named: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.table, Mapping):
            # The columns are read more than once.
            columns = {
                name: list(column) if isinstance(column, Iterator) else column
                for name, column in self.table.items()
            }
            object.__setattr__(self, "table", columns)
        if self._has("collect"):  # polars, lazily
            raise InputError(
                f"table: found {name_type(self.table)}. Give its rows: frame.collect()."
            )
        if isinstance(self.table, Mapping) and any(map(is_table, self.table.values())):
            raise InputError(
                f"table: found tables by name ({list_names(self.table)}). Give one of them, such "
                f"as data['{next(iter(self.table))}']."
            )
        # Of several columns with one name, a dict would keep only the last.
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
            check_lengths({name: len(column) for name, column in columns.items()})
            rows = zip(*columns.values(), strict=True)
            return (dict(zip(columns, row, strict=True)) for row in rows)
        if self._has("iter_rows"):  # polars
            return iter(table.iter_rows(named=True))
        if self._has("iloc"):  # pandas, which has several values for a missing cell
            chunks = (table.iloc[i : i + CHUNK_ROWS] for i in range(0, len(table), CHUNK_ROWS))
            filled_chunks = (chunk.astype(object).where(chunk.notna(), None) for chunk in chunks)
            return itertools.chain.from_iterable(
                chunk.to_dict("records") for chunk in filled_chunks
            )
        if self._has("to_batches"):  # pyarrow
            return itertools.chain.from_iterable(batch.to_pylist() for batch in table.to_batches())
        if self._has("to_pylist"):  # a batch of pyarrow
            return iter(table.to_pylist())
        # datasets, whose rows are dicts already
        classes = self.class_names if self.are_classes_named else {}
        return (
            {**row, **{key: _name_classes(row.get(key), names) for key, names in classes.items()}}
            for row in table
        )

    @property
    def names(self) -> list[Any]:
        """The names of the columns; empty if they are not known before the rows are read."""
        if isinstance(self.table, Mapping):
            return list(self.table)
        name = "column_names" if self._has("column_names") else "columns"
        names = getattr(self.table, name, ())
        return [] if names is None else list(names)

    @property
    def class_names(self) -> dict[str, list[str]]:
        """The names of the classes that the numbers in a column of `datasets` stand for, by column.

        The column may also have lists of numbers.
        """
        features = getattr(self.table, "features", None) if self._has("features") else None
        names = {}
        for column, feature in (features or {}).items():
            item_feature = getattr(feature, "feature", feature)  # of the items, for a list
            if hasattr(item_feature, "names"):
                names[column] = item_feature.names
        return names

    @property
    def num_rows(self) -> int:
        if isinstance(self.table, Mapping):
            columns = self.table.items()
            return max((len(as_list(column, str(name))) for name, column in columns), default=0)
        if self._has("num_rows"):
            return int(self.table.num_rows)
        # A stream of `datasets` has no length.
        return len(self.table) if self._has("__len__") else sum(1 for _ in self.table)

    def _has(self, name: str) -> bool:
        """Return whether the table's type has an attribute of this name.

        The table itself is not asked, since columns are attributes of it, too.
        """
        return hasattr(type(self.table), name)


def as_named(source: Any, argument: str) -> Path | TableRows | Sequence[Mapping[str, Any]] | None:
    """Return a user's data as a file or as rows with names; None for plain items such as texts.

    Args:
        source: the value that the user gave as the argument named `argument`.

    Raises:
        InputError: the source is a tuple of two strings, which may be a pair or two texts.
    """
    if isinstance(source, os.PathLike):
        return Path(source)
    if isinstance(source, TableRows):
        return source
    if is_table(source) or isinstance(source, Mapping):
        return TableRows(source)
    check_no_pair(source, argument)
    if isinstance(source, Sequence) and source and isinstance(source[0], Mapping):
        return source
    return None


def check_names_file(name: str) -> None:
    """Check that a string is the name of a file or folder, or a pattern that matches one.

    Raises:
        InputError: there is no such file.
    """
    # `a[1].csv` may be a file's name, but as a pattern it does not match itself.
    if not os.path.lexists(name) and next(glob.iglob(name), None) is None:  # noqa: PTH207
        raise InputError(
            f"'{name[:80]}': there is no file or folder of this name. Check the spelling; texts "
            "are given as a list, [text, ...]."
        )


def is_file_name(text: str) -> bool:
    """Return whether a text looks like a path, and there is such a file.

    A single word may be a text even if there is a file of that name.
    """
    # Path.is_file raises an error for a text that is too long for a file name.
    return ("/" in text or Path(text).suffix != "") and os.path.isfile(text)  # noqa: PTH113


def warn_of_file_name(text: object) -> None:
    """Warn if a text, which is read as a text, is the path of a file."""
    if isinstance(text, str) and is_file_name(text):
        warn_once(
            f"'{text}' was read as a text, and there is a file of this name. If you mean the texts "
            "in the file, read them first and pass them as a list."
        )


def with_class_numbers(source: SourceT) -> SourceT | TableRows:
    """Return the rows of a table with numbered classes as numbers; other sources as they are."""
    return replace(source, are_classes_named=False) if isinstance(source, TableRows) else source


def with_classes_of(
    source: SourceT, labels: Sequence[str], label_column: str | None
) -> SourceT | TableRows:
    """Return a source whose numbered classes are written as the labels of a task's model are.

    They stay numbers if `labels`, those of the model, are numbers, or if each label has a column of
    0 and 1.
    """
    if not isinstance(source, TableRows):
        return source
    stay = classes_stay_numbers(source.class_names, source.names, labels, label_column)
    return with_class_numbers(source) if stay else source


def classes_stay_numbers(
    class_names: Mapping[str, Sequence[str]],
    column_names: Sequence[Any],
    labels: Iterable[str],
    label_column: str | None,
) -> bool:
    """Return whether a table's numbered classes are read as numbers, not by their names.

    They are if the `labels` that they are compared with are numbers, or if `label_column` names
    several columns of 0 and 1.
    """
    labels = tuple(labels)
    names = {name for names in class_names.values() for name in names}
    # Names of classes may look like numbers, too, such as the ratings "1" to "5".
    are_numbers = bool(labels) and all(map(str.isdecimal, labels)) and not names.issuperset(labels)
    all_columns = list(map(str, column_names))
    # If `label_column` is not one column, it lists several.
    return are_numbers or (
        label_column is not None
        and find_column(label_column, all_columns, len(all_columns)) is None
    )


def _name_classes(value: Any, names: Sequence[str]) -> Any:
    """Return the name of a class, or a list of names; None for a missing class, such as -1."""
    if value is None:
        return None
    if hasattr(value, "tolist"):  # an array or tensor, if the table has that format
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_name_classes(number, names) for number in value]
    return names[value] if value >= 0 else None


def check_lengths(lengths: Mapping[str, int]) -> None:
    """Check that all lists have one length, by the names of their arguments.

    Raises:
        InputError: the length of one differs from the first.
    """
    (first, count), *others = lengths.items()
    for name, other in others:
        if other != count:
            raise InputError(
                f"{name}: found {count_noun(other, 'item')}, but {first} has {count:,}. Give one "
                "for each."
            )

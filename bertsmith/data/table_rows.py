"""Tables in memory as rows with names: of pandas, polars, pyarrow and datasets, or of columns."""

import glob
import itertools
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertsmith.data.encoded_texts import as_list, check_no_pair, is_table, name_type
from bertsmith.data.json_rows import list_names
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
            check_lengths({name: len(column) for name, column in columns.items()})
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


def check_lengths(lengths: Mapping[str, int]) -> None:
    (first, count), *others = lengths.items()
    for name, other in others:
        if other != count:
            raise InputError(
                f"{name}: found {other:,} items, and {first} has {count:,}. Give one for each."
            )

"""Read the texts of a row, a list of cells or a JSON object, from the columns that a task reads.

A spec (`ColumnSpec`) describes a column that a task looks for, such as that of the text. The texts
of a row, by the names of specs, are its record.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bertsmith.data.column_choice import ColumnChoice
from bertsmith.data.excel_files import ERROR_VALUES, cell_text
from bertsmith.data.incomplete_rows import IncompleteRowError, IncompleteRows
from bertsmith.data.json_rows import list_names
from bertsmith.data.objects import ObjectFormat
from bertsmith.data.tables import RowFormat
from bertsmith.data.text_files import locate_row
from bertsmith.errors import InputError

Record = dict[str, tuple[str, ...]]
"""Texts of one row, by the names of specs: a tuple of one text. The tuple may have several if the
spec's texts may be in several columns. Empty texts at its end are dropped, so it is empty
if the row has no text there."""
RAGGED = {
    "tsv": "In a .tsv file every tab starts a column and every line end a row, also within quotes. "
    "Fix the row, or save the table as .csv.",
    "csv": "Put a text that holds a comma, quote or line end in double quotes, the first "
    "directly behind the comma.",
    "xlsx": "Empty the cells beside the table, or name their columns in its first row.",
}
"""Advice on a row with another number of columns than the first."""


@dataclass(frozen=True)
class CellTexts:
    """Reader of the texts of a table's rows.

    Attributes:
        columns: the names of all columns.
        indices: the indices of each spec's columns, by the name of the spec.
        first_row: the number of the first row, which has as many cells as there are columns.
        incomplete: builds the errors for incomplete rows.
    """

    columns: Sequence[str]
    indices: Mapping[str, Sequence[int]]
    first_row: int
    file_format: RowFormat
    incomplete: IncompleteRows

    def read(self, row: int, cells: Sequence[Any]) -> Record:
        """Read the texts of a row.

        Raises:
            IncompleteRowError: the row has another number of cells, or the error of a formula.
        """
        if len(cells) != len(self.columns):
            problem = (
                f"columns: found {len(cells)}, where row {self.first_row} has {len(self.columns)}"
            )
            raise self.incomplete.error(row, problem, RAGGED[self.file_format])
        if self.file_format == "xlsx":
            self._check_no_error(row, cells, itertools.chain(*self.indices.values()))
        return {
            name: without_empty_end([cell_text(cells[i]) for i in column_indices])
            for name, column_indices in self.indices.items()
        }

    def _check_no_error(self, row: int, cells: Sequence[Any], indices: Iterable[int]) -> None:
        """Refuse a row of an Excel file with the error of a formula in a column that is read."""
        for index in indices:
            if cells[index] in ERROR_VALUES:
                problem = f"'{self.columns[index]}' is {cells[index]}, the error of a formula"
                raise self.incomplete.error(row, problem)


@dataclass(frozen=True)
class ObjectTexts:
    """Reader of the texts of objects; the first object that has all texts decides what is read.

    Attributes:
        choice: the keys that are read; later objects may add keys.
        incomplete: builds the errors for incomplete rows.
    """

    choice: ColumnChoice
    file_format: ObjectFormat
    incomplete: IncompleteRows
    _seen_keys: dict[str, None] = field(default_factory=dict)
    """The keys of all objects so far, in their order."""

    def read(self, row: int, value: Mapping[str, Any]) -> Record:
        """Read the texts of an object.

        Raises:
            InputError: a value has another type, or other keys would have been read if this object
                were the first one.
            IncompleteRowError: the object lacks a key.
        """
        choice, seen_keys = self.choice, self._seen_keys
        if not choice.names:
            try:
                choice.choose(list(value), self.file_format, by_number=False)
            except InputError as error:
                raise IncompleteRowError(error.message) from None
        elif not value.keys() <= seen_keys.keys():
            choice.extend(row, list(seen_keys | dict.fromkeys(value)))
        seen_keys.update(dict.fromkeys(value))
        specs, names = choice.read_specs, choice.names
        for spec in specs:
            for name in names.get(spec.name, ()):
                if name not in value and not spec.may_lack_key:
                    problem = f"no key '{name}'. Keys found: {list_names(value)}"
                    advice = "Give every row the keys of the first."
                    raise self.incomplete.error(row, problem, advice)
        location = locate_row(choice.source, row)
        record = {}
        for spec in specs:
            texts: list[str] = []
            for name in names.get(spec.name, ()):
                texts += spec.texts(location, name, value.get(name))
            record[spec.name] = without_empty_end(texts)
        return record


def without_empty_end(texts: Sequence[str]) -> tuple[str, ...]:
    """Return texts up to the last one that is not blank."""
    last = max((i for i, text in enumerate(texts) if text.strip()), default=-1)
    return tuple(texts[: last + 1])

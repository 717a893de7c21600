"""Choose the columns of a table, or keys of JSON objects, that hold the texts a task reads.

A spec (`ColumnSpec`) describes a column that a task looks for, such as that of the text or of the
label: its usual names, whether a table may lack it, and the column that the user chose. A source
is the file of examples, or rows in memory.

The column that the user chose, by name or number, comes first; then the column that the model was
trained on; then the first column that has a usual name.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from bertsmith.data.column_specs import (
    ColumnSpec,
    are_numbers,
    assign_columns,
    is_repeated,
    lowered,
)
from bertsmith.data.delimiters import separator_hint
from bertsmith.data.json_rows import list_names
from bertsmith.data.tables import RowFormat
from bertsmith.data.text_files import ExampleSource, locate_row, name_source
from bertsmith.data.training_columns import NUMBERED, TrainingColumns
from bertsmith.errors import InputError, option

FOR_EXCEL = "sep="
"""Beginning of a first line such as `sep=;`, which tells Excel the separator of columns."""


class ColumnChoice:
    """The columns of a source that match the specs of a task.

    Args:
        source: the file or the rows in memory; for messages.
        header: the user's setting: whether the first row of a table names the columns.
        find_specs: returns the specs, given the names of all columns in lower case: the usual names
            that a spec looks for may depend on which columns there are.
        trained: the columns that the model was trained on.

    Attributes:
        specs: the specs for the columns of the source. Until these are chosen, they are the specs
            for a table without columns.
        names: the names of the chosen columns by the name of their spec; empty until they are
            chosen.
        is_numbered_as_trained: whether the columns were found by the numbers that they had in the
            table of training, since the first row does not name them.
    """

    def __init__(
        self,
        source: ExampleSource,
        header: Literal["auto", "yes", "no"],
        find_specs: Callable[[Sequence[str]], Sequence[ColumnSpec]],
        trained: TrainingColumns,
    ) -> None:
        self.source = source
        self.header = header
        self.find_specs = find_specs
        self.trained = trained
        self.specs = self._specs_of([])
        self.names: dict[str, tuple[str, ...]] = {}
        self.is_numbered_as_trained = False

    def clear(self) -> None:
        """Forget the chosen columns, before the source is read again."""
        self.specs = self._specs_of([])
        self.names = {}
        self.is_numbered_as_trained = False

    @property
    def read_specs(self) -> list[ColumnSpec]:
        """The specs whose texts are read.

        A spec that is not read, such as that of the label in `predict`, takes its column all the
        same, so that no other spec takes it for a text. It gives the column up if a spec that is
        read and must have a column would get none (`assign_columns`).
        """
        return [spec for spec in self.specs if spec.is_read]

    @property
    def has_header(self) -> bool:
        """Whether the first row of a csv, tsv or xlsx file names the columns.

        With `header` "auto" it does, unless the user chose all necessary columns by number.
        """
        if self.header != "auto":
            return self.header == "yes"
        if self.is_numbered_as_trained:
            return False
        # The first spec, that of the text, counts as necessary here. Where `bertsmith score`
        # compares files of labels alone, it is optional; but if the user has not chosen its column
        # by number, only a header can tell whether there is one.
        choices = [
            spec.chosen
            for index, spec in enumerate(self.read_specs)
            if index == 0 or spec.chosen or not spec.is_optional
        ]
        return not all(choice is not None and are_numbers(choice) for choice in choices)

    def choose_in_first_row(self, first: list[str], file_format: RowFormat) -> dict[str, list[int]]:
        """Choose the columns of a table by its first row; return each spec's indices.

        If the row lacks a column, and the user chose none, the columns are found by the numbers
        that training used, if it used numbers.

        Raises:
            InputError: as `choose`.
        """
        try:
            return self.choose(first, file_format, by_number=not self.has_header)
        except InputError:
            has_choice = any(spec.chosen is not None for spec in self.specs)
            if has_choice or self.header != "auto" or not self.trained.are_numbers:
                raise
        return self.choose(first, file_format, by_number=True, as_trained=True)

    def choose(
        self,
        column_names: list[str],
        file_format: RowFormat,
        *,
        by_number: bool,
        as_trained: bool = False,
    ) -> dict[str, list[int]]:
        """Choose the columns of each spec; return their indices in `column_names`.

        Without an error, this sets `specs`, `names` and `is_numbered_as_trained`; with an error,
        all three stay as they were.

        Args:
            by_number: whether the table has no header: then `column_names` are the cells of its
                first row, and columns are chosen by number.
            as_trained: whether to take the numbers that training used, with `by_number`.

        Raises:
            InputError: a column that the user chose, or that every table must have, is missing.
        """
        specs = self._specs_of([] if by_number else lowered(column_names), as_trained=as_trained)
        all_names = column_names
        if by_number:
            # "column 1" and so on
            all_names = [f"{NUMBERED}{number}" for number in range(1, len(column_names) + 1)]
        indices: dict[str, list[int]] = {}
        names: dict[str, tuple[str, ...]] = {}
        assigned = assign_columns(specs, column_names, by_number=by_number)
        for spec in specs:
            if not spec.is_read:
                continue
            columns = assigned[spec.name]
            if columns is not None:
                indices[spec.name] = columns
                names[spec.name] = tuple(all_names[i] for i in columns)
            elif spec.chosen is not None or not spec.is_optional:
                problem = self._missing(spec, column_names, file_format, by_number)
                raise InputError(f"{name_source(self.source)}: {problem}")
        self.specs = specs
        self.names = names
        self.is_numbered_as_trained = as_trained
        return indices

    def extend(self, row: int, column_names: list[str]) -> None:
        """Add the new keys of an object, which the rows before it lack, to `names`.

        Args:
            row: the number of the object, for messages.
            column_names: all keys so far, those of this object included.

        Raises:
            InputError: a new key is the column of a spec for which the rows before have another
                column; or for which they have none, although all rows must have one if any has.
        """
        location = locate_row(self.source, row)
        by_old_specs = assign_columns(self.specs, column_names, by_number=False)
        new_specs = self._specs_of(lowered(column_names))
        by_new_specs = assign_columns(new_specs, column_names, by_number=False)
        for spec in self.read_specs:
            before = self.names.get(spec.name, ())
            # The usual names that a spec looks for may depend on all columns. A spec that has found
            # its column keeps the names of the first row; one that has none takes the new names.
            indices = (by_old_specs if before else by_new_specs)[spec.name] or ()
            names = tuple(column_names[i] for i in indices)
            if before and names and names != before and not spec.is_many:
                raise InputError(
                    f"{location}: has '{names[0]}', which the rows before lack: there, "
                    f"'{before[0]}' was taken for the {spec.name}. Name the right one with "
                    f"{option(spec.option)}."
                )
            if names and not before and not spec.may_be_empty:
                raise InputError(
                    f"{location}: has a {spec.name} ('{names[0]}'), which the rows "
                    f"before lack. Give every row one, or {spec.instead}."
                )
            # A spec that had no column gets one, or a spec of many columns gets more of them.
            if set(before) < set(names):
                self.names[spec.name] = names

    def _specs_of(
        self, column_names: Sequence[str], *, as_trained: bool = False
    ) -> list[ColumnSpec]:
        """Build the specs for a table with these columns; tell each its columns of training.

        With `as_trained` they choose their columns by the numbers that training used.
        """
        specs = self.find_specs(column_names)
        if as_trained:
            numbers = self.trained.numbers
            return [replace(spec, chosen=numbers.get(spec.name)) for spec in specs]
        names = self.trained.names
        return [replace(spec, trained_names=names.get(spec.name, ())) for spec in specs]

    def _missing(
        self,
        spec: ColumnSpec,
        column_names: list[str],
        file_format: RowFormat,
        by_number: bool,
    ) -> str:
        """Describe the column that a spec lacks, and say how to choose one."""
        names = spec.usual_names if spec.chosen is None else (spec.chosen, *spec.chosen.split(","))
        repeated = [name for name in names if is_repeated(name, column_names)]
        if repeated and not by_number:
            advice = "Rename all but the right one."
            if spec.option:
                advice = (
                    "Give the number of the right one, counted from 1, with "
                    f"{option(spec.option)}, or rename the others."
                )
            return (
                f"several columns are called '{repeated[0].strip()}', and one is expected. Columns "
                f"found: {list_names(column_names)}. {advice}"
            )
        # If a program gives labels beside its table, as `fit(X, y)` does, `source.added` is the
        # name of the column that holds them; the program did not choose that name.
        added = getattr(self.source, "added", None)
        columns = f"Columns found: {list_names(name for name in column_names if name != added)}"
        advice = "Rename the right one, or use another file."
        if spec.option:
            advice = f"Choose with {option(spec.option)}, by name or by number (counted from 1)."
        if by_number:
            columns = (
                f"The first row, read without a header, has {len(column_names)}: "
                f"{list_names(column_names)}"
            )
            numbers = "numbers" if spec.is_many else "a number"
            advice = (
                f"Give {option(spec.option)} {numbers} from 1 to {len(column_names)}, or "
                f"{option('header', 'yes')}."
            )
        missing = f"'{spec.chosen}'" if spec.chosen else f"looks like the {spec.name}"
        if spec.trained_names and not spec.chosen:
            missing += f", and none is called {list_names(spec.trained_names)} as in training"
        if column_names and column_names[0].startswith(FOR_EXCEL):
            advice = f"Remove the first line, '{column_names[0]}', which only Excel reads."
        if len(column_names) == 1:
            advice += separator_hint(file_format, column_names[0], can_ask=bool(spec.option))
        return f"no column {missing}. {columns}. {advice}"

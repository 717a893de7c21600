"""Read the rows of a table, or rows in memory, as texts by the columns that a task needs.

A column is the one that the user chose, by name or number, or else the first with a usual name. If
a row has many texts, they are in several columns, or in a list under one key.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from bertsmith.data.column_specs import (
    ColumnSpec,
    are_numbers,
    assign_columns,
    is_repeated,
    lowered,
)
from bertsmith.data.delimiters import delimiter_in, separator_hint
from bertsmith.data.excel_files import ERROR_VALUES, cell_text, find_formula
from bertsmith.data.json_rows import list_names
from bertsmith.data.objects import ObjectFormat, holds_objects, read_objects
from bertsmith.data.parquet_classes import with_class_names
from bertsmith.data.reader import ExampleT, Reader
from bertsmith.data.tables import (
    ASK_FORMAT,
    RowFormat,
    TableFormat,
    read_rows,
    read_txt,
    table_format,
)
from bertsmith.data.text_files import STANDARD_INPUT, ExampleSource, locate_row, name_source
from bertsmith.data.training_columns import NUMBERED, TrainingColumns
from bertsmith.errors import InputError, option

Record = dict[str, tuple[str, ...]]
"""Texts of one row, by the names of specs. A spec has one text, none if its column is optional, or
several."""

FOR_EXCEL = "sep="
"""Beginning of a first line that tells Excel the separator of columns."""
RAGGED = {
    "tsv": "In a .tsv file every tab starts a column and every line end a row, also within quotes. "
    "Fix the row, or save the table as .csv.",
    "csv": "Put a text that holds a comma, quote or line end in double quotes, the first "
    "directly behind the comma.",
    "xlsx": "Empty the cells beside the table, or name their columns in its first row.",
}
"""Advice on a row with another number of columns than the first."""


class TableOptions(Protocol):
    """Options for reading a table."""

    @property
    def header(self) -> Literal["auto", "yes", "no"]: ...
    @property
    def skip_incomplete(self) -> bool: ...
    @property
    def format(self) -> TableFormat: ...
    @property
    def delimiter(self) -> str | None: ...


class SourceRow(NamedTuple):
    """A row as it was read: the names of all its columns, and their values."""

    columns: Sequence[str]
    values: Sequence[Any]
    is_object: bool
    """Whether the row is an object, as of a line of JSON, so that other rows may lack its keys."""


class _OpenedRows(NamedTuple):
    """The rows of a source, and how their texts are read."""

    columns: Sequence[str] | None
    """Names of the columns; None for objects, each of which has its own keys."""
    rows: Iterator[tuple[int, Any]]
    """The number and the content of each row."""
    read: Callable[[int, Any], Record]
    """Reads the texts from the number and the content of a row."""


class IncompleteRowError(InputError):
    """A row with a missing text or column, which the user may choose to skip."""


class RecordReader(Reader[ExampleT]):
    """Lazy reader of a table's rows, or of rows in memory, as examples.

    Args:
        source: `.csv`, `.tsv`, `.jsonl`, `.json`, `.parquet` or `.xlsx`, plain or `.gz/.xz/.zst`;
            `STANDARD_INPUT`; or mappings in memory, which are read like objects of `.jsonl`.
        find_specs: returns the columns to read, given the names of all columns in lower case;
            earlier specs choose their columns first.
        parse: builds an example from a row's number and texts. Empty texts at the end of a list
            are dropped; where a row may lack all texts of a list, empty texts anywhere in it are.
        lines_lack: what a file of plain lines (`.txt`) lacks, for messages, such as "labels"; empty
            if such a file can be read: then each line is the text of the first spec.
        can_skip: whether the user can choose to skip rows, so that messages name the flag.
        trained: the columns that the model was trained on.

    Attributes:
        names: the columns of each spec; set once reading has begun.
        is_numbered_as_trained: whether columns are found by the numbers that training used, since
            the first row does not name them.
    """

    def __init__(
        self,
        source: ExampleSource,
        options: TableOptions,
        find_specs: Callable[[Sequence[str]], Sequence[ColumnSpec]],
        parse: Callable[[int, Record], ExampleT],
        *,
        lines_lack: str = "columns",
        can_skip: bool = True,
        trained: TrainingColumns | None = None,
    ) -> None:
        self.source = source
        self.options = options
        self.find_specs = find_specs
        self.parse = parse
        self.lines_lack = lines_lack
        self.can_skip = can_skip
        self.trained = trained or TrainingColumns()
        self.is_numbered_as_trained = False
        self.specs = self._specs_of([])
        self.names: dict[str, tuple[str, ...]] = {}
        self._cell_indices: dict[str, list[int]] = {}

    def __iter__(self) -> Iterator[ExampleT]:
        """Yield the examples; errors are those of `with_rows`."""
        return (example for example, _ in self.with_rows())

    def with_rows(self) -> Iterator[tuple[ExampleT, SourceRow]]:
        """Yield the examples, and the rows that they were read from.

        Raises:
            InputError: the source cannot be read as a table with these columns, a row does not
                fit, or there is no complete row.
        """
        self.num_skipped = 0
        self.names = {}
        self.is_numbered_as_trained = False
        num_rows = 0
        first_error: InputError | None = None
        opened = self._open()
        for row, value in opened.rows:
            num_rows += 1
            try:
                record = self._check_texts(row, opened.read(row, value))
                example = self.parse(row, record)
            except IncompleteRowError as error:
                if not self.options.skip_incomplete:
                    raise
                first_error = first_error or error
                self.num_skipped += 1
                continue
            if opened.columns is None:
                yield example, SourceRow(tuple(value), tuple(value.values()), is_object=True)
            else:
                yield example, SourceRow(opened.columns, value, is_object=False)
        if num_rows == self.num_skipped:
            # Without names, all rows were skipped because they lack a column.
            if first_error and not self.names:
                raise first_error
            raise InputError(f"{self.source_name}: no complete rows. Give at least one.")

    @property
    def source_name(self) -> str:
        """Name of the source in messages."""
        return name_source(self.source)

    @property
    def file_format(self) -> RowFormat:
        """Format of the file; jsonl for rows in memory.

        Raises:
            InputError: as in `table_format`.
        """
        return table_format(
            self.source,
            self.options.format,
            self.options.delimiter,
            may_be_lines=not self.lines_lack,
        )

    @property
    def is_table(self) -> bool:
        """Whether it is a csv, tsv or xlsx file."""
        return self.file_format in ("csv", "tsv", "xlsx")

    @property
    def has_header(self) -> bool:
        """Whether the first row of a csv, tsv or xlsx file names the columns.

        With `header` "auto" it does, unless the user chose all necessary columns by number.
        """
        if self.options.header != "auto":
            return self.options.header == "yes"
        if self.is_numbered_as_trained:
            return False
        # The first spec, the text, counts as necessary. It is optional only where files of labels
        # are compared, and if its column is not chosen there, the header is needed to find it.
        choices = [
            spec.chosen
            for index, spec in enumerate(self._read_specs)
            if index == 0 or spec.chosen or not spec.is_optional
        ]
        return not all(choice is not None and are_numbers(choice) for choice in choices)

    def class_names(self) -> Mapping[str, Sequence[str]]:
        """Return names of classes by column, for which a Parquet file's numbers stand."""
        return {}

    def locate_row(self, row: int) -> str:
        return locate_row(self.source, row)

    def incomplete_error(self, row: int, problem: str, advice: str = "") -> IncompleteRowError:
        """Build the error for an incomplete row; say how to skip it, if the user can."""
        skip = f"pass {option('skip_incomplete', True)} (skipped rows are counted)."
        end = f"{advice} Or {skip}" if advice else f"Fix the row, or {skip}"
        if not self.can_skip:
            end = advice or "Fix the row."
        return IncompleteRowError(f"{self.locate_row(row)}: {problem}. {end}")

    @property
    def _read_specs(self) -> list[ColumnSpec]:
        return [spec for spec in self.specs if spec.is_read]

    @property
    def delimiter(self) -> str | None:
        """The separator that the user chose, or else that of training if the file has it."""
        if self.options.delimiter is not None or not isinstance(self.source, Path):
            return self.options.delimiter
        return delimiter_in(self.source, self.file_format, self.trained.delimiter)

    def columns_read(self) -> TrainingColumns:
        """Return the columns that were read, as they are stored with a model."""
        return TrainingColumns(dict(self.names), self.delimiter)

    def _specs_of(self, column_names: Sequence[str]) -> list[ColumnSpec]:
        """Build the specs for a table with these columns; add the columns of training to each."""
        names, numbers = self.trained.names, self.trained.numbers
        if self.is_numbered_as_trained:
            return [
                replace(spec, chosen=numbers.get(spec.name))
                for spec in self.find_specs(column_names)
            ]
        return [
            replace(spec, trained_names=names.get(spec.name, ()))
            for spec in self.find_specs(column_names)
        ]

    def _open(self) -> _OpenedRows:
        file_format = self.file_format
        if holds_objects(file_format):
            return self._open_objects(file_format)
        assert isinstance(self.source, Path)
        if file_format == "txt":
            return self._open_lines(self.source)
        return self._open_table(self.source)

    def _open_objects(self, file_format: ObjectFormat) -> _OpenedRows:
        class_names = self.class_names() if file_format == "parquet" else {}
        seen_keys: dict[str, None] = {}

        def read(row: int, value: Mapping[str, Any]) -> Record:
            if class_names:
                value = with_class_names(value, class_names, self.locate_row(row))
            return self._read_object(seen_keys, row, value)

        return _OpenedRows(None, read_objects(self.source, file_format), read)

    def _open_lines(self, path: Path) -> _OpenedRows:
        if self.lines_lack:
            raise InputError(
                f"{self.source_name}: lines of text have no {self.lines_lack}. Use .csv, .tsv or "
                f".jsonl. {ASK_FORMAT}"
            )
        name = self.specs[0].name
        self.names = {name: (name,)}
        lines = ((row, [line]) for row, line in read_txt(path))
        return _OpenedRows([name], lines, lambda row, cells: {name: without_empty_end(cells)})

    def _open_table(self, path: Path) -> _OpenedRows:
        rows = read_rows(path, self.file_format, delimiter=self.delimiter)
        first_row, first_cells = next(rows, (0, []))
        if not first_cells:
            raise InputError(f"{self.source_name}: no rows. Give a file with at least one.")
        first = [cell_text(cell) for cell in first_cells]
        indices = self._cell_indices = self._resolve_first(first)
        columns = first
        if not self.has_header:
            rows = itertools.chain([(first_row, first_cells)], rows)
            columns = [f"{NUMBERED}{number}" for number in range(1, len(first) + 1)]

        def read(row: int, cells: Sequence[Any]) -> Record:
            if len(cells) != len(first):
                problem = f"columns: found {len(cells)}, where row {first_row} has {len(first)}"
                raise self.incomplete_error(row, problem, RAGGED[self.file_format])
            if self.file_format == "xlsx":
                self._check_no_error(row, columns, cells, itertools.chain(*indices.values()))
            return {
                name: without_empty_end([cell_text(cells[i]) for i in column_indices])
                for name, column_indices in indices.items()
            }

        return _OpenedRows(columns, rows, read)

    def _check_no_error(
        self, row: int, columns: Sequence[str], cells: Sequence[Any], indices: Iterable[int]
    ) -> None:
        """Refuse a row of an Excel file with the error of a formula in a column that is read."""
        for index in indices:
            if cells[index] in ERROR_VALUES:
                problem = f"'{columns[index]}' is {cells[index]}, the error of a formula"
                raise self.incomplete_error(row, problem)

    def _resolve_first(self, first: list[str]) -> dict[str, list[int]]:
        """Find each spec's indices in a first row: chosen, by name, or by number as in training."""
        try:
            return self._resolve(first, by_number=not self.has_header)
        except InputError:
            has_choice = any(spec.chosen is not None for spec in self.specs)
            if has_choice or self.options.header != "auto" or not self.trained.are_numbers:
                raise
        self.names = {}
        self.is_numbered_as_trained = True
        return self._resolve(first, by_number=True)

    def _read_object(
        self, seen_keys: dict[str, None], row: int, value: Mapping[str, Any]
    ) -> Record:
        """Read an object's texts; `seen_keys` collects the keys of all objects so far, in order."""
        if not self.names:
            try:
                self._resolve(list(value), by_number=False)
            except InputError as error:
                self.names = {}
                raise IncompleteRowError(error.message) from None
        elif not value.keys() <= seen_keys.keys():
            self._extend(row, list(seen_keys | dict.fromkeys(value)))
        seen_keys |= dict.fromkeys(value)
        for spec in self._read_specs:
            for name in self.names.get(spec.name, ()):
                if name not in value and not spec.may_lack_key:
                    problem = f"no key '{name}'. Keys found: {list_names(value)}"
                    raise self.incomplete_error(
                        row, problem, "Give every row the keys of the first."
                    )
        location = self.locate_row(row)
        record = {}
        for spec in self._read_specs:
            texts: list[str] = []
            for name in self.names.get(spec.name, ()):
                texts += spec.texts(location, name, value.get(name))
            record[spec.name] = without_empty_end(texts)
        return record

    def _check_texts(self, row: int, record: Record) -> Record:
        """Refuse a row with an empty text; from lists that may be empty, drop the empty texts."""
        for spec in self._read_specs:
            texts = record.get(spec.name, ())
            if spec.is_many and spec.may_be_empty:
                record[spec.name] = tuple(text for text in texts if text.strip())
                continue
            has_empty_text = not all(text.strip() for text in texts)
            lacks_texts = not texts and not spec.may_be_empty and spec.name in self.names
            if has_empty_text or lacks_texts:
                raise self._empty_error(row, spec)
        return record

    def _empty_error(self, row: int, spec: ColumnSpec) -> IncompleteRowError:
        """Build the error for an empty text; an Excel cell may be a formula without a result."""
        columns = " or ".join(f"'{name}'" for name in self.names[spec.name])
        formula = self._find_formula(row, spec.name)
        if not formula:
            return self.incomplete_error(row, f"{columns} is empty")
        return self.incomplete_error(
            row,
            f"{columns} is a formula ({formula:.40}) whose result the file does not hold",
            "Open the file in a spreadsheet program and save it there, or save the table as .csv.",
        )

    def _find_formula(self, row: int, spec_name: str) -> str | None:
        """Find the formula because of which a cell of an Excel file looks empty.

        Return None if incomplete rows are skipped, since each search reads the file from its start.
        """
        if self.options.skip_incomplete or self.source == STANDARD_INPUT:
            return None
        if not isinstance(self.source, Path) or self.file_format != "xlsx":
            return None
        return find_formula(self.source, row, self._cell_indices[spec_name])

    def _extend(self, row: int, column_names: list[str]) -> None:
        """Add keys that earlier rows lack to `names`; `column_names` are all keys so far.

        Raises:
            InputError: a key belongs to a spec that all rows must have, or none of them; or it
                would have been read instead of another key if the first row had it.
        """
        by_old_specs = assign_columns(self.specs, column_names, by_number=False)
        new_specs = self._specs_of(lowered(column_names))
        by_new_specs = assign_columns(new_specs, column_names, by_number=False)
        for spec in self._read_specs:
            before = self.names.get(spec.name, ())
            # The usual names that a spec looks for may depend on all columns. A spec that has found
            # its column keeps the names of the first row; one that has none takes the new names.
            indices = (by_old_specs if before else by_new_specs)[spec.name] or ()
            names = tuple(column_names[i] for i in indices)
            if before and names and names != before and not spec.is_many:
                raise InputError(
                    f"{self.locate_row(row)}: has '{names[0]}', which the rows before lack: there, "
                    f"'{before[0]}' was taken for the {spec.name}. Name the right one with "
                    f"{option(spec.option)}."
                )
            if names and not before and not spec.may_be_empty:
                raise InputError(
                    f"{self.locate_row(row)}: has a {spec.name} ('{names[0]}'), which the rows "
                    f"before lack. Give every row one, or {spec.instead}."
                )
            if set(before) < set(names):
                self.names[spec.name] = names

    def _resolve(self, column_names: list[str], *, by_number: bool) -> dict[str, list[int]]:
        """Find each spec's indices among `column_names`; fill `names`.

        Raises:
            InputError: a column that the user chose, or that every table must have, is missing.
        """
        self.specs = self._specs_of([] if by_number else lowered(column_names))
        names = column_names
        if by_number:
            names = [f"{NUMBERED}{number}" for number in range(1, len(column_names) + 1)]
        indices: dict[str, list[int]] = {}
        assigned = assign_columns(self.specs, column_names, by_number=by_number)
        for spec in self._read_specs:
            columns = assigned[spec.name]
            if columns is not None:
                indices[spec.name] = columns
                self.names[spec.name] = tuple(names[i] for i in columns)
            elif spec.chosen is not None or not spec.is_optional:
                raise InputError(
                    f"{self.source_name}: {self._missing(spec, column_names, by_number)}"
                )
        return indices

    def _missing(self, spec: ColumnSpec, column_names: list[str], by_number: bool) -> str:
        """Describe the column that a spec lacks, and say how to choose one."""
        names = spec.usual_names if spec.chosen is None else (spec.chosen, *spec.chosen.split(","))
        repeated = [name for name in names if is_repeated(name, column_names)]
        if repeated and not by_number:
            return (
                f"several columns are called '{repeated[0].strip()}', and one is expected. Columns "
                f"found: {list_names(column_names)}. Give the number of the right one, counted "
                f"from 1, with {option(spec.option)}, or rename the others."
            )
        # If a program gives labels beside its table, as `fit(X, y)` does, `source.added` is the
        # name of the column that holds them; the program did not choose that name.
        added = getattr(self.source, "added", None)
        columns = f"Columns found: {list_names(name for name in column_names if name != added)}"
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
            advice += separator_hint(self.file_format, column_names[0])
        return f"no column {missing}. {columns}. {advice}"


def without_empty_end(texts: Sequence[str]) -> tuple[str, ...]:
    last = max((i for i, text in enumerate(texts) if text.strip()), default=-1)
    return tuple(texts[: last + 1])

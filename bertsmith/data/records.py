"""Read the rows of a table, of a file of JSON objects or in memory as the examples of a task.

A task describes each column that it looks for by a spec (`ColumnSpec`), such as that of the text or
of the label. `column_choice.py` decides which columns these are, and `row_texts.py` reads a row's
texts from them: its record, which has the texts by the name of their spec. If a spec has many
texts in a row, they are in several columns, or in a list under one key.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from bertsmith.data.column_choice import ColumnChoice
from bertsmith.data.column_specs import ColumnSpec
from bertsmith.data.delimiters import delimiter_in
from bertsmith.data.excel_files import cell_text, find_formula
from bertsmith.data.incomplete_rows import IncompleteRowError, IncompleteRows
from bertsmith.data.objects import ObjectFormat, holds_objects, read_objects
from bertsmith.data.parquet_classes import with_class_names
from bertsmith.data.reader import ExampleT, Reader
from bertsmith.data.row_texts import CellTexts, ObjectTexts, Record, without_empty_end
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
from bertsmith.errors import InputError


class TableOptions(Protocol):
    """Options for reading a table, which `Columns` and the like classes of other tasks have."""

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


class RecordReader(Reader[ExampleT]):
    """Lazy reader of a table's rows, or of rows in memory, as examples.

    Args:
        source: `.csv`, `.tsv`, `.jsonl`, `.json`, `.parquet` or `.xlsx`, plain or `.gz/.xz/.zst`;
            `STANDARD_INPUT`; or mappings in memory, which are read like objects of `.jsonl`.
        find_specs: returns the specs, given the names of all columns in lower case; earlier specs
            choose their columns first.
        parse: builds an example from a row's number and its record. Of a spec with many texts, the
            empty texts at the end are dropped; if a row may lack all of them, all empty texts are.
        lines_lack: what a file of plain lines (`.txt`) lacks, for messages, such as "labels"; empty
            if such a file can be read: then each line is the text of the first spec.
        can_skip: whether the user can choose to skip incomplete rows, so that messages name the
            option.
        trained: the columns that the model was trained on.
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
        self.parse = parse
        self.lines_lack = lines_lack
        self.trained = trained or TrainingColumns()
        self._choice = ColumnChoice(source, options.header, find_specs, self.trained)
        self._incomplete = IncompleteRows(source, can_skip)
        self._cell_indices: dict[str, list[int]] = {}

    def __iter__(self) -> Iterator[ExampleT]:
        """Yield the examples; errors are those of `with_rows`."""
        return (example for example, _ in self.with_rows())

    def with_rows(self) -> Iterator[tuple[ExampleT, SourceRow]]:
        """Yield the examples, each with the row that it was read from.

        Raises:
            InputError: the source cannot be read as a table with these columns, a row does not
                fit, or there is no complete row.
        """
        self.num_skipped = 0
        self._choice.clear()
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
            # If no columns were found, all rows were skipped because they lack one.
            if first_error and not self.names:
                raise first_error
            raise InputError(f"{self.source_name}: no complete rows. Give at least one.")

    @property
    def names(self) -> Mapping[str, tuple[str, ...]]:
        """The names of each spec's columns, by the name of the spec; empty until reading begins."""
        return self._choice.names

    @property
    def has_header(self) -> bool:
        """Whether the first row of a csv, tsv or xlsx file names the columns."""
        return self._choice.has_header

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

    def class_names(self) -> Mapping[str, Sequence[str]]:
        """Return the names of numbered classes in a Parquet file, by column.

        The numbers are then read as these names. A subclass may override this; here there are none.
        """
        return {}

    def locate_row(self, row: int) -> str:
        return locate_row(self.source, row)

    def incomplete_error(self, row: int, problem: str, advice: str = "") -> IncompleteRowError:
        """Build the error for an incomplete row; say how to skip it, if the user can."""
        return self._incomplete.error(row, problem, advice)

    @property
    def delimiter(self) -> str | None:
        """The separator that the user chose, or else that of training if the file has it."""
        if self.options.delimiter is not None or not isinstance(self.source, Path):
            return self.options.delimiter
        return delimiter_in(self.source, self.file_format, self.trained.delimiter)

    def columns_read(self) -> TrainingColumns:
        """Return the columns that were read, as they are stored with a model."""
        return TrainingColumns(dict(self.names), self.delimiter)

    def _open(self) -> _OpenedRows:
        file_format = self.file_format
        if holds_objects(file_format):
            return self._open_objects(file_format)
        # Rows in memory are objects; standard input is a path, too.
        assert isinstance(self.source, Path)
        if file_format == "txt":
            return self._open_lines(self.source)
        return self._open_table(self.source)

    def _open_objects(self, file_format: ObjectFormat) -> _OpenedRows:
        class_names = self.class_names() if file_format == "parquet" else {}
        texts = ObjectTexts(self._choice, file_format, self._incomplete)

        def read_named(row: int, value: Mapping[str, Any]) -> Record:
            return texts.read(row, with_class_names(value, class_names, self.locate_row(row)))

        rows = read_objects(self.source, file_format)
        return _OpenedRows(None, rows, read_named if class_names else texts.read)

    def _open_lines(self, path: Path) -> _OpenedRows:
        if self.lines_lack:
            raise InputError(
                f"{self.source_name}: lines of text have no {self.lines_lack}. Use .csv, .tsv or "
                f".jsonl. {ASK_FORMAT}"
            )
        name = self._choice.specs[0].name  # that of the text
        self._choice.names = {name: (name,)}
        lines = ((row, [line]) for row, line in read_txt(path))
        return _OpenedRows([name], lines, lambda row, cells: {name: without_empty_end(cells)})

    def _open_table(self, path: Path) -> _OpenedRows:
        file_format = self.file_format
        rows = read_rows(path, file_format, delimiter=self.delimiter)
        first_row, first_cells = next(rows, (0, []))
        if not first_cells:
            raise InputError(f"{self.source_name}: no rows. Give a file with at least one.")
        first = [cell_text(cell) for cell in first_cells]
        indices = self._cell_indices = self._choice.choose_in_first_row(first, file_format)
        columns = first
        if not self.has_header:
            rows = itertools.chain([(first_row, first_cells)], rows)
            # "column 1" and so on
            columns = [f"{NUMBERED}{number}" for number in range(1, len(first) + 1)]
        texts = CellTexts(columns, indices, first_row, file_format, self._incomplete)
        return _OpenedRows(columns, rows, texts.read)

    def _check_texts(self, row: int, record: Record) -> Record:
        """Refuse a row with an empty text; of many texts that may be empty, drop the empty ones."""
        # Not `specs`, which also has columns that are not read, such as the label in `predict`.
        for spec in self._choice.read_specs:
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

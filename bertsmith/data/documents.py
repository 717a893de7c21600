"""Stream the documents of text files, or of texts in memory, one at a time.

Text files separate documents by empty lines; the other formats hold one document in each row.
Memory is bounded: a document, or a line of running text, beyond a few megabytes is divided at the
end of a sentence or word. A row that is too large to be held is rejected. Documents, rows and files
that are left out are counted, except blank lines of jsonl, csv and tsv files.
"""

import csv
import io
import re
import tempfile
import unicodedata
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any

from bertsmith.data.delimiters import separator_hint
from bertsmith.data.encoded_texts import name_type
from bertsmith.data.json_rows import (
    JSON,
    as_json,
    json_fault,
    json_type,
    without_half_characters,
)
from bertsmith.data.lines import MAX_ROW_BYTES, TEXT_STOPS, Lines, find_cut
from bertsmith.data.parquet_files import rows_at_once, unpack
from bertsmith.data.partitions import Partition, open_partition
from bertsmith.data.reading import Errors, Reading, SourceReport
from bertsmith.data.sources import Format, Source, SourcePath, find_sources, identity
from bertsmith.data.text_files import IN_MEMORY
from bertsmith.errors import InputError, option


def iter_parquet(reading: Reading, stream: io.BufferedReader) -> Iterator[str]:
    """Yield the texts of the text column, row by row; null is empty.

    Raises:
        InputError: damaged, no such column, or one that does not hold strings.
    """
    if reading.source.compression is None:
        yield from _iter_parquet_rows(reading, stream)
    else:  # Parquet is read from its end, so it has to be unpacked first
        with tempfile.TemporaryFile() as plain:
            unpack(stream, plain)
            yield from _iter_parquet_rows(reading, plain)


def _iter_parquet_rows(reading: Reading, file: IO[bytes]) -> Iterator[str]:
    import pyarrow

    number = 0
    try:
        for column in _iter_columns(reading, file):
            for value in column:
                number += 1
                if (text := _text(reading, number, value)) is not None:
                    yield text
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the system's, not of the bytes
        problem = str(error).splitlines()[0]
        raise InputError(
            f"{reading.source.path}: damaged, or not a Parquet table ({problem}). "
            "Copy or download the file again."
        ) from error


def _iter_columns(reading: Reading, file: IO[bytes]) -> Iterator[list[bytes | None]]:
    """Yield the undecoded values of the text column, a few megabytes at a time."""
    from pyarrow import parquet

    table = parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False)
    name = reading.text_column
    names = table.schema_arrow.names
    if name not in names:
        problem = reading.describe_missing_column(names)
        raise InputError(
            f"{reading.source.path}: {problem}. Choose one with {option(reading.column_option)}."
        )
    if names.count(name) > 1:
        raise InputError(f"{reading.source.path}: {reading.describe_repeated_column()}")
    kind = table.schema_arrow.field(name).type
    if not _is_text(kind):
        raise InputError(
            f"{reading.source.path}: column {name!r} holds {kind}, not strings. "
            f"Choose another with {option(reading.column_option)}."
        )
    rows = rows_at_once(table.metadata)
    for batch in table.iter_batches(rows, columns=[name], use_threads=False):
        yield batch.column(0).cast("large_string").cast("large_binary").to_pylist()


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    kinds = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    return any(is_kind(kind) for is_kind in kinds)


def _text(reading: Reading, number: int, value: bytes | None) -> str | None:
    """Decode a row's text; null is an empty document."""
    if value is None:
        return ""
    reading.report.bytes += len(value)
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        problem = f"invalid UTF-8 (0x{value[error.start]:02x}) at byte {error.start:,} of the text"
        reading.reject("invalid_utf8", f": row {number:,}", problem, "Fix the row")
        return None


MAX_DOCUMENT_CHARS = 1 << 22  # a long book; what is longer becomes several documents

_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
LINE_BYTES = 64
"""Bytes that each line of a row adds to its size; Python takes about twice as many."""
_TOO_LONG = "row too long"
_ASCII_SPACE = " \t\r\n\v\f"


@dataclass(frozen=True, slots=True)
class Document:
    """A text, its file, and its number among the documents read from that file, from 1.

    For texts in memory `ordinal` is the index of the text.
    """

    text: str
    source: SourcePath
    ordinal: int

    def __len__(self) -> int:
        return len(self.text)

    def __str__(self) -> str:
        return f"{self.source}: document {self.ordinal:,}"


@dataclass(frozen=True, slots=True)
class DocumentReader:
    """Reader of partitions, in any process.

    Rows of jsonl, csv, tsv and parquet are documents by their `text_column`; a tab-separated file
    has no quoting. With `errors="skip"`, a line or row that cannot be read is counted and left out;
    a file that is missing, binary or damaged is an error all the same.
    """

    text_column: str = "text"
    errors: Errors = "strict"
    column_option: str = "text_column"

    def read(self, partition: Partition, report: SourceReport) -> Iterator[Document]:
        """Stream the documents of a partition; invisible ones are skipped and counted.

        Raises:
            InputError: the file, or a line or row of it, cannot be read.
        """
        source = partition.source
        reading = Reading(
            source, self.text_column, self.errors, report, partition.start, self.column_option
        )
        report.files += not partition.start
        with open_partition(partition, reading.count_bytes) as stream:
            texts: Iterable[str] = ()
            if not stream.peek(1):
                reading.reject("empty_files", "", "the file is empty", "Remove it")
            elif source.format == "parquet":
                texts = iter_parquet(reading, stream)
            else:
                texts = _READERS[source.format](Lines(reading, stream))
            accepted = (part for text in texts for part in _accepted(text, report))
            for ordinal, text in enumerate(accepted, start=1):
                yield Document(text, source.path, ordinal)


@dataclass(frozen=True, slots=True)
class TextsInMemory:
    """Texts in memory, each of which is a document.

    `iter_texts` yields them from the first on, in each pass.
    """

    iter_texts: Callable[[], Iterable[object]]

    def read(self, report: SourceReport) -> Iterator[Document]:
        """Stream the documents; texts that are missing or invisible are skipped and counted.

        Raises:
            InputError: one is not text; names its position.
        """
        for index, value in enumerate(self.iter_texts()):
            text = as_json(value)
            if text is None:
                text = ""
            if not isinstance(text, str):
                raise InputError(f"texts[{index}]: found {name_type(value)}. Give a string.")
            report.bytes += len(text.encode())
            for part in _accepted(text, report):
                yield Document(part, IN_MEMORY, index)


Texts = Iterable[str | Path] | TextsInMemory
"""Files, folders and globs, or texts in memory."""


def iter_documents(
    texts: Texts,
    *,
    held_out: Iterable[str | Path] = (),
    text_column: str = "text",
    errors: Errors = "strict",
    column_option: str = "text_column",
    report: SourceReport | None = None,
) -> Iterator[Document]:
    """Stream the documents of texts; those of files sorted by path (see `DocumentReader`).

    Files of `texts` that `held_out` names, too, under any path, are left out and counted; so are
    documents without a visible character. Messages name `column_option` as the option that chooses
    the text column.

    Raises:
        InputError: at once for a path that cannot be read, later for what is inside.
    """
    report = SourceReport() if report is None else report
    if isinstance(texts, TextsInMemory):
        return texts.read(report)
    reader = DocumentReader(text_column, errors, column_option)
    sources = select_sources(texts, report, held_out)
    return chain.from_iterable(reader.read(Partition(source), report) for source in sources)


def select_sources(
    paths: Iterable[str | Path], report: SourceReport, held_out: Iterable[str | Path] = ()
) -> list[Source]:
    """Find the files of `paths`, sorted, without those that `held_out` names, too, under any path.

    Raises:
        InputError: a path that cannot be read.
    """
    all_sources, left_aside = find_sources(paths)
    excluded = set(map(identity, find_sources(held_out)[0]))
    sources = [source for source in all_sources if identity(source) not in excluded]
    report.skipped += left_aside + Counter(held_out_files=len(all_sources) - len(sources))
    report.bytes_on_disk += sum(source.path.stat().st_size for source in sources)
    return sources


def _accepted(text: str, report: SourceReport) -> Iterator[str]:
    """Yield a text as a document, several if long, none if it is invisible."""
    if not _LETTER_OR_DIGIT.search(text) and not any(map(_is_visible, text)):
        is_blank = not text.strip(_ASCII_SPACE)
        report.skipped["empty_documents" if is_blank else "control_only_documents"] += 1
        return
    for earlier_parts, part in enumerate(_cut_long(text)):
        report.documents += 1
        if earlier_parts == 1:
            report.cut["long_documents"] += 1
        yield part


def _is_visible(character: str) -> bool:
    """Return whether BERT's cleaning keeps a character and it is not a space."""
    if character.isspace() or character == "\ufffd":
        return False
    return not unicodedata.category(character).startswith("C")


def _cut_long(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > MAX_DOCUMENT_CHARS:
        end = find_cut(text, start + MAX_DOCUMENT_CHARS, TEXT_STOPS)
        yield text[start:end]
        start = end
    yield text[start:] if start else text


def _iter_txt(lines: Lines) -> Iterator[str]:
    cut = lines.reading.report.cut
    document: list[str] = []
    size = 0
    is_cut = False
    for line in lines.in_parts():
        is_blank = not line.strip(_ASCII_SPACE)
        if document and (is_blank or size + len(line) > MAX_DOCUMENT_CHARS):
            if not is_blank and not is_cut:
                cut["long_documents"] += 1
            yield "\n".join(document)
            document = []
            size = 0
            is_cut = not is_blank
        if not is_blank:
            document.append(line.rstrip("\r\n"))
            size += len(line) + 1
    if document:
        yield "\n".join(document)


def _iter_jsonl(lines: Lines) -> Iterator[str]:
    for line in lines.whole():
        text = None if line.isspace() else _json_text(lines, line)
        if text is not None:
            yield text


def _json_text(lines: Lines, line: str) -> str | None:
    """Return the text of a JSON object, empty for null; reject all else."""
    column = lines.reading.text_column
    advice = 'Each line must be one object such as {"text": "..."}; fix it'
    try:
        row = without_half_characters(JSON.decode(line.rstrip("\r\n")), line)
    except (ValueError, RecursionError) as error:
        lines.reject("bad_json", f"not JSON ({json_fault(error)})", advice)
    else:
        if not isinstance(row, dict):
            lines.reject("bad_json", f"found {json_type(row)}, not an object", advice)
        elif column not in row:
            problem = lines.reading.describe_missing_column(row)
            choice = option(lines.reading.column_option)
            lines.reject("missing_column", problem, f"Choose one with {choice}")
        elif (text := row[column]) is None:
            return ""
        elif not isinstance(text, str):
            problem = f"column {column!r} holds {json_type(text)}, not a string"
            choice = option(lines.reading.column_option)
            lines.reject("not_a_string", problem, f"Fix the row, choose another {choice}")
        else:
            return text
    return None


def _iter_table(lines: Lines, *, quoted: bool) -> Iterator[str]:
    reading = lines.reading
    rows = _iter_rows(lines, quoted)
    _, header = next(rows, (1, []))
    if reading.text_column not in header:
        problem = reading.describe_missing_column(header)
        raise InputError(
            f"{reading.source.path}:1: {problem}. Choose one with {option(reading.column_option)}; "
            "the first line has to name the columns."
        )
    if header.count(reading.text_column) > 1:
        raise InputError(f"{reading.source.path}:1: {reading.describe_repeated_column()}")
    column = header.index(reading.text_column)
    for number, row in rows:
        if len(row) == len(header):
            yield row[column]
        else:
            problem = f"fields: found {len(row)}, where the header names {len(header)}"
            reading.reject("bad_rows", f":{number}", problem, "Fix the row")


def _iter_rows(lines: Lines, quoted: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not empty, each with its first line's number."""
    csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_BYTES))
    row_lines = _RowLines(lines)
    if quoted:
        reader = csv.reader(row_lines, strict=True)
    else:
        reader = csv.reader(row_lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    while True:
        row_lines.begin_row()
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            number, line = row_lines.first
            advice = "Fix the row"
            if quoted:
                hint = separator_hint("csv", line, '"', can_ask=False) if number == 1 else ""
                advice = f'Close each quote, and double those inside a field ("").{hint} {advice}'
            lines.reading.reject("bad_rows", f":{number}", _csv_problem(error), advice)
            row_lines.give_back_all_but_first()
        else:
            if row:
                yield row_lines.first[0], row


class _RowLines:
    """Line source of a csv.reader that can give back the lines of a row.

    A quote that is never closed takes in all lines up to another quote, though they are rows of
    their own. The kept lines are bounded: a row whose characters, and `LINE_BYTES` for each line,
    are more than `MAX_ROW_BYTES` is a csv.Error.
    """

    def __init__(self, lines: Lines) -> None:
        self._new = ((lines.number, line) for line in lines.whole())
        self._again: deque[tuple[int, str]] = deque()
        self.begin_row()

    def __iter__(self) -> "_RowLines":
        return self

    def __next__(self) -> str:
        numbered = self._again.popleft() if self._again else next(self._new)
        self._row.append(numbered)
        self._size += LINE_BYTES + len(numbered[1])
        if self._size > MAX_ROW_BYTES:
            raise csv.Error(_TOO_LONG)
        return numbered[1]

    @property
    def first(self) -> tuple[int, str]:
        return self._row[0]

    def begin_row(self) -> None:
        self._row: list[tuple[int, str]] = []
        self._size = 0

    def give_back_all_but_first(self) -> None:
        self._again.extendleft(reversed(self._row[1:]))


def _csv_problem(error: csv.Error) -> str:
    if str(error) == _TOO_LONG:
        return (
            f"the row is larger than {MAX_ROW_BYTES:,} characters, of which each of its lines "
            f"counts {LINE_BYTES} more; perhaps a quote is never closed"
        )
    if "new-line character" in str(error):
        return "a carriage return (CR) within the row, outside of quotes"
    if "unexpected end of data" in str(error):
        return "a quote that opens in this row is never closed"
    return f"the row cannot be read ({error})"


_READERS: Mapping[Format, Callable[[Lines], Iterator[str]]] = {
    "txt": _iter_txt,
    "jsonl": _iter_jsonl,
    "csv": partial(_iter_table, quoted=True),
    "tsv": partial(_iter_table, quoted=False),
}

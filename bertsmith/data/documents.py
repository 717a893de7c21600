"""Stream the documents of text files, or of texts in memory, for tokenizers and corpora.

Text files separate documents by empty lines; the other formats hold one document in each row.
Memory is bounded: a document, or a line of running text, beyond a few megabytes is divided at the
end of a sentence or word. A row that is too large to be held is rejected. What is left out
(documents, rows, files) is counted in a `SourceReport`, except blank lines of tables and jsonl.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from bertsmith.data.encoded_texts import name_type
from bertsmith.data.json_rows import (
    as_json,
    decode_row,
    json_fault,
    json_type,
)
from bertsmith.data.lines import TEXT_STOPS, Lines, find_cut
from bertsmith.data.parquet_texts import iter_parquet
from bertsmith.data.partitions import Partition, open_partition
from bertsmith.data.reading import Errors, Reading, SourceReport
from bertsmith.data.sources import Format, Source, SourcePath, find_sources, identity
from bertsmith.data.table_texts import iter_table
from bertsmith.data.text_files import IN_MEMORY
from bertsmith.errors import InputError, option

MAX_DOCUMENT_CHARS = 1 << 22
"""Longest document in characters, a long book; a longer text becomes several documents."""
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
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
    """Reader of the documents of partitions, that is, files or ranges of their bytes.

    In jsonl, csv, tsv and parquet files, the `text_column` of each row is a document; a
    tab-separated file has no quoting. With `errors="skip"`, an empty file, and a line or row that
    cannot be read, are counted and left out; a file that is missing, binary or damaged is an error
    all the same.
    """

    text_column: str = "text"
    errors: Errors = "strict"
    column_option: str = "text_column"
    """Name of the option by which the user chooses the text column, for messages."""

    def read(self, partition: Partition, report: SourceReport) -> Iterator[Document]:
        """Stream the documents of a partition; those without a visible character are only counted.

        `report` gets the counts.

        Raises:
            InputError: the file, or a line or row of it, cannot be read.
        """
        source = partition.source
        reading = Reading(
            source,
            text_column=self.text_column,
            errors=self.errors,
            report=report,
            start=partition.start,
            column_option=self.column_option,
        )
        report.files += not partition.start  # a divided file is counted at its first partition
        with open_partition(partition, reading.count_bytes) as stream:
            texts: Iterable[str] = ()
            if not stream.peek(1):
                reading.reject(
                    "empty_files", location="", problem="the file is empty", advice="Remove it"
                )
            elif source.format == "parquet":
                texts = iter_parquet(reading, stream)
            else:
                texts = _READERS[source.format](Lines(reading, stream))
            accepted = (part for text in texts for part in _to_documents(text, report))
            for ordinal, text in enumerate(accepted, start=1):
                yield Document(text, source.path, ordinal)


@dataclass(frozen=True, slots=True)
class TextsInMemory:
    """Texts in memory, each of which is a document.

    `iter_texts` yields them from the first on, in each pass.
    """

    iter_texts: Callable[[], Iterable[object]]

    def read(self, report: SourceReport) -> Iterator[Document]:
        """Stream the documents; missing and invisible texts are skipped and counted.

        Raises:
            InputError: an item is not text; the message names its position.
        """
        for index, value in enumerate(self.iter_texts()):
            text = as_json(value)
            if text is None:
                text = ""
            if not isinstance(text, str):
                raise InputError(f"texts[{index}]: found {name_type(value)}. Give a string.")
            report.bytes += len(text.encode())
            for part in _to_documents(text, report):
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
    """Stream the documents of texts; files are read in the order of their paths.

    Files of `texts` that `held_out` also names, by whatever path, are left out and counted; so are
    documents without a visible character.

    Args:
        column_option: name of the option that chooses `text_column`, for messages.
        report: gets the counts of what was read and skipped.

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
    """Find the files of `paths`, sorted, without those that `held_out` also names.

    A file is left out by whatever path `held_out` names it. The files that are left out are counted
    in `report`.

    Raises:
        InputError: a path cannot be read.
    """
    all_sources, left_aside = find_sources(paths)
    excluded = set(map(identity, find_sources(held_out)[0]))
    sources = [source for source in all_sources if identity(source) not in excluded]
    report.skipped += left_aside + Counter(held_out_files=len(all_sources) - len(sources))
    report.bytes_on_disk += sum(source.path.stat().st_size for source in sources)
    return sources


def _to_documents(text: str, report: SourceReport) -> Iterator[str]:
    """Yield a text as one document, a long text as several; none if no character is visible."""
    if not _LETTER_OR_DIGIT.search(text) and not any(map(_is_visible, text)):
        is_blank = not text.strip(_ASCII_SPACE)
        report.skipped["empty_documents" if is_blank else "control_only_documents"] += 1
        return
    for index, part in enumerate(_cut_long(text)):
        report.documents += 1
        if index == 1:  # a second part: the text was divided
            report.cut["long_documents"] += 1
        yield part


def _is_visible(character: str) -> bool:
    """Return whether a character is no space, and is kept when BERT's tokenizer cleans a text."""
    if character.isspace() or character == "\ufffd":
        return False
    return not unicodedata.category(character).startswith("C")


def _cut_long(text: str) -> Iterator[str]:
    """Divide a text into parts of at most `MAX_DOCUMENT_CHARS` characters."""
    start = 0
    while len(text) - start > MAX_DOCUMENT_CHARS:
        end = find_cut(text, start + MAX_DOCUMENT_CHARS, TEXT_STOPS)
        yield text[start:end]
        start = end
    yield text[start:] if start else text


def _iter_txt(lines: Lines) -> Iterator[str]:
    """Yield the documents between blank lines; divide a document that is too long."""
    cut = lines.reading.report.cut
    document: list[str] = []
    size = 0
    is_cut = False  # whether `document` is a later part of a long one, which is counted already
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
    """Yield the text of each line's object; blank lines and rejected ones are left out."""
    for line in lines.whole():
        text = None if line.isspace() else _json_text(lines, line)
        if text is not None:
            yield text


def _json_text(lines: Lines, line: str) -> str | None:
    """Return the text of a JSON object, empty for null; None if the line is rejected."""
    column = lines.reading.text_column
    advice = 'Each line must be one object such as {"text": "..."}; fix it'
    try:
        row = decode_row(line.rstrip("\r\n"))
    except ValueError as error:
        lines.reject("bad_json", f"not JSON ({json_fault(error)})", advice)
        return None
    if not isinstance(row, dict):
        lines.reject("bad_json", f"found {json_type(row)}, not an object", advice)
        return None
    if column not in row:
        problem = lines.reading.describe_missing_column(row)
        choice = option(lines.reading.column_option)
        lines.reject("missing_column", problem, f"Choose one with {choice}")
        return None
    text = row[column]
    if text is not None and not isinstance(text, str):
        problem = f"column {column!r} holds {json_type(text)}, not a string"
        choice = option(lines.reading.column_option)
        lines.reject("not_a_string", problem, f"Fix the row, choose another {choice}")
        return None
    return "" if text is None else str(text)


_READERS: Mapping[Format, Callable[[Lines], Iterator[str]]] = {
    "txt": _iter_txt,
    "jsonl": _iter_jsonl,
    "csv": partial(iter_table, quoted=True),
    "tsv": partial(iter_table, quoted=False),
}

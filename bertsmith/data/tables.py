"""Read rows of csv, tsv, jsonl and text files, with their line numbers.

In a `.csv` file quotes follow RFC 4180; in a `.tsv` file they are plain characters, as in the
published data sets that come in this form.
"""

import codecs
import contextlib
import csv
import io
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

from bertsmith.data.lines import MAX_ROW_BYTES
from bertsmith.data.sources import Source, compression_of, open_path
from bertsmith.errors import InputError

FoundFormat = Literal["csv", "tsv", "jsonl", "txt"]
TableFormat = Literal["auto", FoundFormat]
ASK_FORMAT = "If it is a table by another name, say which: --format tsv (or csv, jsonl)."
STANDARD_INPUT = Path("-")
"""Path of standard input, read as one text per line."""
CHUNK_BYTES = 1 << 16
HALF_CHARACTER = re.compile("[\ud800-\udfff]")
ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""JSON's escapes of surrogates; unescaped ones are no UTF-8."""


def iter_lines(path: Path) -> Iterator[str]:
    """Yield a UTF-8 file's lines with their ends, decompressed by its name.

    Only a line feed ends a line. A byte order mark is dropped.

    Raises:
        InputError: the file is missing, empty, damaged, not text or not UTF-8 (with the offset
            of the first wrong byte), or a line is longer than `MAX_ROW_BYTES`.
    """
    place, offset = place_name(path), 0
    with _open(path) as stream:
        _check_is_text(place, stream.peek())
        for row, line in enumerate(iter(partial(stream.readline, MAX_ROW_BYTES + 1), b""), start=1):
            if len(line) > MAX_ROW_BYTES:
                raise _too_long(f"{place}:{row}", "line")
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise _not_utf8(place, offset + error.start, error) from None
            yield text if offset else text.removeprefix("\ufeff")
            offset += len(line)


def iter_text(path: Path) -> Iterator[str]:
    """Yield a UTF-8 file's text in chunks, decompressed by its name.

    Line ends stay as they are. A byte order mark is dropped.

    Raises:
        InputError: as in `iter_lines`.
    """
    place, offset, is_first = place_name(path), 0, True
    decoder = codecs.getincrementaldecoder("utf-8")()
    with _open(path) as stream:
        _check_is_text(place, stream.peek())
        while chunk := stream.read1(CHUNK_BYTES):
            text = _decode_part(decoder, chunk, place, offset)
            offset += len(chunk)
            if text:
                yield text.removeprefix("\ufeff") if is_first else text
                is_first = False
        _decode_part(decoder, b"", place, offset)


def _decode_part(decoder: codecs.IncrementalDecoder, chunk: bytes, place: str, offset: int) -> str:
    """Decode bytes that stand at `offset`; no bytes end the file."""
    offset -= len(decoder.getstate()[0])
    try:
        return decoder.decode(chunk, final=not chunk)
    except UnicodeDecodeError as error:
        raise _not_utf8(place, offset + error.start, error) from None


def table_format(path: Path, asked: TableFormat | None = None) -> FoundFormat:
    """Return a file's format as asked, else by its name; txt for standard input.

    Args:
        asked: None where the user cannot ask for one, so that no message says so.

    Raises:
        InputError: there is no such file, or its name ends in something else.
    """
    told = None if asked == "auto" else asked
    if path == STANDARD_INPUT:
        return told or "txt"
    if not path.is_file():
        found = "a folder, not a file" if path.is_dir() else "no such file"
        raise InputError(f"{path}: {found}. Check the spelling.")
    if told is not None:
        return told
    source = Source.from_name(path)
    if source is None or source.format == "parquet":
        hint = "" if asked is None else f" {ASK_FORMAT}"
        raise InputError(
            f"{path}: '{path.suffix or 'no ending'}' is not a table this command reads. Use .csv, "
            f".tsv or .jsonl, plain or compressed as .gz, .xz or .zst.{hint}"
        )
    return source.format


def place_name(path: Path) -> str:
    """Return the name of a file in messages."""
    return "standard input" if path == STANDARD_INPUT else str(path)


@contextlib.contextmanager
def _open(path: Path) -> Iterator[io.BufferedReader]:
    if path == STANDARD_INPUT:
        if sys.stdin is None:  # as Python has it where file descriptor 0 is closed
            raise InputError(
                "standard input: it is closed. Pipe rows into the command, or name a file."
            )
        with open(sys.stdin.fileno(), "rb", closefd=False) as stream:
            yield stream
        return
    with open_path(path, compression_of(path), on_read=lambda count: None) as stream:
        yield stream


def _too_long(place: str, what: str) -> InputError:
    return InputError(
        f"{place}: the {what} is longer than {MAX_ROW_BYTES:,} bytes, and each row must fit into "
        "memory. Divide it, or close its quotes if one is open."
    )


def _not_utf8(place: str, offset: int, error: UnicodeDecodeError) -> InputError:
    return InputError(
        f"{place}: byte {offset:,} is 0x{error.object[error.start]:02x}, which is not UTF-8. Save "
        "the text as UTF-8."
    )


def _check_is_text(place: str, head: bytes) -> None:
    if not head:
        raise InputError(f"{place}: nothing in it. Give a file with at least one row.")
    if (offset := head.find(b"\0")) >= 0:
        raise InputError(
            f"{place}: not text, found a NUL byte at byte {offset:,}. Give UTF-8 text "
            "(UTF-16 has to be converted, a spreadsheet exported)."
        )


def check_line_ends(place: str, content: str) -> None:
    """Raise InputError for a carriage return within a line.

    Carriage returns alone may end lines, and others then hide in this one.
    """
    if "\r" in content:
        raise _lone_return(place)


def _lone_return(place: str) -> InputError:
    return InputError(
        f"{place}: a carriage return (CR) within the line. Lines end in a line feed (LF or CRLF) "
        "here; convert the file (tr '\\r' '\\n')."
    )


def whole_number(text: str) -> int | None:
    """Parse decimal digits; None for other text.

    More than nine digits are none either: no count here is that large, and Python refuses to parse
    some thousands of them.
    """
    return int(text) if text.isdecimal() and len(text) <= 9 else None


def read_tsv(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield each line's number and cells; blank lines have no cells.

    Quotes are plain characters.

    Raises:
        InputError: a carriage return within the first line, which is then the whole file.
    """
    for row, line in enumerate(iter_lines(path), start=1):
        content = line.rstrip("\r\n")
        if row == 1:  # further down, a stray one may belong to a text
            check_line_ends(f"{place_name(path)}:1", content)
        yield row, content.split("\t") if content else []


def read_txt(path: Path, *, keep_empty_end: bool = False) -> Iterator[tuple[int, str]]:
    """Yield each line's number and text.

    Empty lines at the end are no rows, unless `keep_empty_end`.

    Raises:
        InputError: a carriage return within the first line, which is then the whole file.
    """
    num_empty = 0
    for row, line in enumerate(iter_lines(path), start=1):
        text = line.rstrip("\r\n")
        if row == 1:  # further down, a stray one may belong to a text
            check_line_ends(f"{place_name(path)}:1", text)
        if not text and not keep_empty_end:
            num_empty += 1
            continue
        yield from ((empty, "") for empty in range(row - num_empty, row))
        num_empty = 0
        yield row, text


def read_csv(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield each row's first line number and cells; blank lines have no cells.

    Quotes follow RFC 4180.

    Raises:
        InputError: quotes that do not match, or a carriage return that alone ends a line, with
            the row; or a row longer than `MAX_ROW_BYTES`, as after a quote that never ends.
    """
    csv.field_size_limit(MAX_ROW_BYTES)  # the default refuses a cell above 131,072 characters
    place = place_name(path)
    row = size = 0

    def row_lines() -> Iterator[str]:
        nonlocal size
        for line in iter_lines(path):
            size += len(line)
            if size > MAX_ROW_BYTES:
                raise _too_long(f"{place}:{row}", "row")
            yield line

    reader = csv.reader(row_lines(), strict=True)
    while True:
        row, size = reader.line_num + 1, 0
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "new-line character" in str(error):  # a CR outside of quotes, not before LF
                raise _lone_return(f"{place}:{reader.line_num}") from None
            raise InputError(
                f"{place}:{row}: not valid CSV ({error}). A quoted cell ends at a double quote; "
                "a quote inside it is written twice."
            ) from None
        yield row, cells


def read_rows(
    path: Path, kind: FoundFormat, *, keep_blank: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a csv or tsv file.

    Blank lines are skipped, or with `keep_blank` rows without cells.

    Raises:
        InputError: as in `read_csv` and `read_tsv`.
    """
    rows = read_csv(path) if kind == "csv" else read_tsv(path)
    return ((row, cells) for row, cells in rows if cells or keep_blank)


def read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each object and its line number; blank lines are skipped.

    NaN is read as null: so pandas writes what is missing. Half a surrogate pair is read as U+FFFD,
    see `without_half_characters`.

    Raises:
        InputError: a line that is no JSON object, holds a key twice, or is too deep or has too
            long a number to be read.
    """
    place = place_name(path)
    for row, line in enumerate(iter_lines(path), start=1):
        if not line.strip():
            continue
        try:
            value = without_half_characters(JSON.decode(line), line)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{place}:{row}: not JSON ({json_fault(error)}). Each line holds one JSON object."
            ) from None
        if not isinstance(value, dict):
            raise InputError(
                f"{place}:{row}: found {json_type(value)}; each line holds one JSON object, "
                'such as {"text": "...", "label": "..."}.'
            )
        yield row, value


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object from pairs; JSON's readers keep the last of equal keys.

    Raises:
        ValueError: a key stands there twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key '{twice}' stands twice in an object")
    return found


JSON = json.JSONDecoder(
    parse_constant=lambda name: None if name == "NaN" else float(name),
    object_pairs_hook=unique_keys,
)


def without_half_characters(value: Any, source: str) -> Any:
    r"""Replace each half of a surrogate pair in a JSON value by U+FFFD.

    Such a half, as in a text that was cut within an emoji (`"\ud83d"`), is no character and stands
    in no UTF-8 file. The row stays, its offsets hold, and the output shows where something was.

    Args:
        value: what was read.
        source: the JSON text that it was read from, or more; spares the search where nothing in
            it can be such a half.

    Raises:
        ValueError: two keys of an object become one.
        RecursionError: lists and objects stand in one another too deep.
    """
    return _mended(value) if ESCAPED_HALF.search(source) else value


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return HALF_CHARACTER.sub("\ufffd", value)
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        mended = {_mended(key): _mended(item) for key, item in value.items()}
        if len(mended) < len(value):
            raise ValueError("two keys differ only in half a surrogate pair")
        return mended
    return value


def json_fault(error: ValueError | RecursionError) -> str:
    """Describe why a text could not be read as JSON, for messages."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at column {error.colno:,}"
    return "lists or objects too deep" if isinstance(error, RecursionError) else str(error)


def json_type(value: Any) -> str:
    """Name the type of a JSON value, for messages."""
    names = {list: "a list", dict: "an object", str: "a string", bool: "true or false"}
    return "null" if value is None else names.get(type(value), "a number")

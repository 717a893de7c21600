"""Read files of examples as text: decompressed, decoded from UTF-8, in lines or chunks."""

import codecs
import contextlib
import io
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bertsmith.data.decompression import open_path
from bertsmith.data.lines import MAX_ROW_BYTES, check_is_text, utf8_advice
from bertsmith.data.sources import compression_of, ending_of
from bertsmith.data.standard_input import StandardInput, open_standard_input
from bertsmith.errors import InputError
from bertsmith.system.progress import progress_bar

ExampleSource = Path | Iterable[Mapping[str, Any]]
"""File of examples, or rows in memory: a list of dicts, or another iterable of mappings."""
IN_MEMORY = Path("the rows given")
"""Name of rows or texts in memory, for messages."""
STANDARD_INPUT = Path("-")
"""Path of standard input. Each of its lines is a text, or for questions a JSON object, unless the
user names another format."""
WITHOUT_LINES = ("parquet", "json", "xlsx")
"""Endings of files in which a row is not a line."""
CHUNK_BYTES = 1 << 16
"""Largest number of bytes that are decoded at once where lines do not matter."""


def name_source(source: ExampleSource) -> str:
    """Return the name of a file, or of rows in memory, for messages."""
    if not isinstance(source, Path):
        return str(IN_MEMORY)
    return "standard input" if source == STANDARD_INPUT else str(source)


def locate_row(source: ExampleSource, row: int) -> str:
    """Return the location of a row for messages, such as `a.csv:3` or `row 3 of the rows given`."""
    name = name_source(source)
    # `source` may also be the path `IN_MEMORY`, which stands for rows in memory in messages.
    has_lines = isinstance(source, Path) and ending_of(source) not in WITHOUT_LINES
    return f"{name}:{row}" if has_lines and name != str(IN_MEMORY) else f"row {row} of {name}"


def check_is_file(path: Path) -> None:
    """Check that a path is a file, or standard input.

    Raises:
        InputError: there is no such file, or it is a folder or a pipe.
    """
    if path != STANDARD_INPUT and not path.is_file():
        problem = "no such file. Check the spelling"
        if path.is_dir():
            problem = "a folder, not a file. Check the spelling"
        elif path.exists():  # such as <(zcat a.gz)
            problem = "a pipe, which can be read only once. Write it to a file"
        raise InputError(f"{path}: {problem}.")


def iter_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file with their ends.

    Only a line feed ends a line. A byte order mark is dropped. The file is decompressed if its name
    ends in .gz, .xz or .zst.

    Raises:
        InputError: the file is missing, empty, damaged, not text or not UTF-8 (with the offset
            of the first wrong byte), or a line is longer than `MAX_ROW_BYTES`.
    """
    source_name = name_source(path)
    offset = 0
    with _open(path) as stream:
        _check_start(source_name, stream.peek())
        for row, line in enumerate(iter(partial(stream.readline, MAX_ROW_BYTES + 1), b""), start=1):
            if len(line) > MAX_ROW_BYTES:
                raise too_long_error(f"{source_name}:{row}", "line")
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise _not_utf8(source_name, offset + error.start, error) from None
            yield text if offset else text.removeprefix("\ufeff")  # a byte order mark
            offset += len(line)


def iter_text(path: Path) -> Iterator[str]:
    """Yield the text of a UTF-8 file in chunks.

    Line ends stay as they are. A byte order mark is dropped. The file is decompressed if its name
    ends in .gz, .xz or .zst.

    Raises:
        InputError: as in `iter_lines`.
    """
    source_name = name_source(path)
    offset = 0
    is_first = True
    decoder = codecs.getincrementaldecoder("utf-8")()
    with _open(path) as stream:
        _check_start(source_name, stream.peek())
        while chunk := stream.read1(CHUNK_BYTES):
            text = _decode_part(decoder, chunk, source_name, offset)
            offset += len(chunk)
            if text:
                yield text.removeprefix("\ufeff") if is_first else text
                is_first = False
        _decode_part(decoder, b"", source_name, offset)


def _decode_part(
    decoder: codecs.IncrementalDecoder, chunk: bytes, source_name: str, offset: int
) -> str:
    """Decode the bytes at `offset` of a file; an empty `chunk` means the end of the file."""
    offset -= len(decoder.getstate()[0])  # bytes of a character that `chunk` continues
    try:
        return decoder.decode(chunk, final=not chunk)
    except UnicodeDecodeError as error:
        raise _not_utf8(source_name, offset + error.start, error) from None


@contextlib.contextmanager
def _open(path: Path) -> Iterator[io.BufferedReader | StandardInput]:
    """Open the decompressed bytes of a file, with a progress bar, or standard input."""
    if path == STANDARD_INPUT:
        yield open_standard_input()
        return
    size = path.stat().st_size if path.is_file() else None
    with (
        progress_bar(path.name, size) as bar,
        open_path(path, compression_of(path), on_read=bar) as stream,
    ):
        yield stream


def too_long_error(location: str, what: str) -> InputError:
    return InputError(
        f"{location}: the {what} is longer than {MAX_ROW_BYTES:,} bytes, and each row must fit "
        "into memory. Divide it; in a .csv file, see that each quote is closed."
    )


def _not_utf8(source_name: str, offset: int, error: UnicodeDecodeError) -> InputError:
    return InputError(
        f"{source_name}: byte {offset:,} is 0x{error.object[error.start]:02x}, which is not UTF-8. "
        f"{utf8_advice(error)}."
    )


def _check_start(source_name: str, head: bytes) -> None:
    """Refuse an empty file, or one whose first bytes are not UTF-8 text."""
    if not head:
        again = ""
        if source_name == name_source(STANDARD_INPUT):
            again = " It can be read only once: write it to a file if it was read before."
        raise InputError(f"{source_name}: nothing in it. Give a file with at least one row.{again}")
    check_is_text(source_name, head)


def check_line_ends(location: str, content: str) -> None:
    """Check that a line holds no carriage return.

    In a file whose lines end in carriage returns, one line would hold the whole file.

    Raises:
        InputError: there is a carriage return.
    """
    if "\r" in content:
        raise lone_return_error(location)


def lone_return_error(location: str) -> InputError:
    return InputError(
        f"{location}: a carriage return (CR) within the line. Lines end in a line feed (LF or "
        "CRLF) here; convert the file (tr '\\r' '\\n')."
    )

"""Read the texts of a Parquet file's column, a few megabytes at a time."""

import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from bertsmith.data.reading import Reading
from bertsmith.errors import InputError
from bertsmith.system.files import write_error

_BATCH_BYTES = 1 << 22


def iter_parquet(reading: Reading, stream: io.BufferedReader) -> Iterator[str]:
    """Yield the texts of the text column, row by row; null is empty.

    Raises:
        InputError: damaged, no such column, or one that does not hold strings.
    """
    if not stream.peek(1):
        reading.reject_empty()
    elif reading.source.compression is None:
        yield from _iter_rows(reading, stream)
    else:  # Parquet is read from its end, so it has to be unpacked first
        with tempfile.TemporaryFile() as plain:
            _unpack(stream, plain)
            yield from _iter_rows(reading, plain)


def _unpack(stream: io.BufferedReader, plain: IO[bytes]) -> None:
    while block := stream.read(1 << 20):
        try:
            plain.write(block)
        except OSError as error:
            raise write_error(Path(tempfile.gettempdir()), error) from error
    plain.seek(0)


def _iter_rows(reading: Reading, file: IO[bytes]) -> Iterator[str]:
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
        found = reading.describe_missing_column(names)
        raise InputError(f"{reading.source.path}: {found}. Choose one with --text-column.")
    if names.count(name) > 1:
        raise InputError(f"{reading.source.path}: {reading.describe_repeated_column()}")
    kind = table.schema_arrow.field(name).type
    if not _is_text(kind):
        raise InputError(
            f"{reading.source.path}: column {name!r} holds {kind}, not strings. "
            "Choose another with --text-column."
        )
    rows = _rows_at_once(table.metadata)
    for batch in table.iter_batches(rows, columns=[name], use_threads=False):
        yield batch.column(0).cast("large_string").cast("large_binary").to_pylist()


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    kinds = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    return any(is_kind(kind) for is_kind in kinds)


def _rows_at_once(metadata: Any) -> int:
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    size = sum(group.total_byte_size for group in groups)
    fitting = int(_BATCH_BYTES * metadata.num_rows // max(1, size))
    return max(1, min(4096, fitting))


def _text(reading: Reading, number: int, value: bytes | None) -> str | None:
    """Decode a row's text; null is an empty document."""
    if value is None:
        return ""
    reading.report.bytes += len(value)
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        found = f"invalid UTF-8 (0x{value[error.start]:02x}) at byte {error.start:,} of the text"
        reading.reject("invalid_utf8", f": row {number:,}", found, "Mend the row")
        return None

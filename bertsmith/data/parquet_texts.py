"""Read one column of a Parquet file, whose texts become documents."""

import io
import tempfile
from collections.abc import Iterator
from typing import IO, Any

from bertsmith.data.parquet_files import damaged_table, rows_at_once, unpack
from bertsmith.data.reading import Reading
from bertsmith.errors import InputError, option


def iter_parquet(reading: Reading, stream: io.BufferedReader) -> Iterator[str]:
    """Yield the texts of the text column, row by row; null becomes an empty text.

    `reading` has the settings for reading the file, such as the column, and its counts.

    Raises:
        InputError: the file is damaged, or it has no such column or one that does not hold strings.
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
                if (text := _decode_text(reading, number, value)) is not None:
                    yield text
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise damaged_table(reading.source.path, error) from error


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
    column_type = table.schema_arrow.field(name).type
    if not _is_text(column_type):
        raise InputError(
            f"{reading.source.path}: column {name!r} holds {column_type}, not strings. "
            f"Choose another with {option(reading.column_option)}."
        )
    num_rows = rows_at_once(table.metadata)
    for batch in table.iter_batches(num_rows, columns=[name], use_threads=False):
        # Undecoded, so that one text that is not UTF-8 does not fail the whole batch.
        yield batch.column(0).cast("large_string").cast("large_binary").to_pylist()


def _is_text(column_type: Any) -> bool:
    """Return whether a column of this type holds strings, or only null."""
    from pyarrow import types

    if types.is_dictionary(column_type):
        column_type = column_type.value_type
    checks = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    return any(is_of_type(column_type) for is_of_type in checks)


def _decode_text(reading: Reading, number: int, value: bytes | None) -> str | None:
    """Decode a row's text; null becomes an empty text, and None stands for a rejected one."""
    if value is None:
        return ""
    reading.report.bytes += len(value)
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        problem = f"invalid UTF-8 (0x{value[error.start]:02x}) at byte {error.start:,} of the text"
        reading.reject(
            "invalid_utf8", location=f": row {number:,}", problem=problem, advice="Fix the row"
        )
        return None

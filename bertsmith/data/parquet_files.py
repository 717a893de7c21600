"""Read the rows of Parquet tables, a few megabytes at a time."""

import io
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from bertsmith.data.decompression import open_path
from bertsmith.data.json_rows import as_json
from bertsmith.data.sources import SourcePath, compression_of
from bertsmith.data.text_files import STANDARD_INPUT
from bertsmith.errors import InputError
from bertsmith.system.progress import progress_bar
from bertsmith.system.write_error import write_error

BATCH_BYTES = 1 << 22
"""Bytes of rows that are decoded at once, by the sizes that the file's metadata give."""


def read_parquet(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each row's number, from 1, and its values; NaN is read as null.

    Raises:
        InputError: the file is damaged or no Parquet table, two columns share a name, or it is
            standard input.
    """
    with open_parquet(path) as table:
        number = 0
        for batch in batches(path, table):
            names = batch.schema.names
            columns = [
                _values(f"{path}: column '{name}'", column, number)
                for name, column in zip(names, batch.columns, strict=True)
            ]
            for values in zip(*columns, strict=True):
                number += 1
                yield number, as_json(dict(zip(names, values, strict=True)))


def parquet_schema(path: Path) -> Any:
    """Return the arrow schema of a table.

    Raises:
        InputError: as `read_parquet`.
    """
    with open_parquet(path) as table:
        return table.schema_arrow


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """Open a table as pyarrow's ParquetFile, decompressed by its name.

    Raises:
        InputError: as `read_parquet`.
    """
    check_is_seekable(path, "a Parquet table")
    # pyarrow takes a quarter of a second, and most files are of other formats.
    import pyarrow
    from pyarrow import parquet

    with progress_bar(path.name, path.stat().st_size) as bar, open_seekable(path, bar) as file:
        try:
            # A buffer of a megabyte for each column: pre_buffer would hold whole columns in memory.
            table = parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False)
            names = table.schema_arrow.names
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise damaged_table(path, error) from error
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise InputError(
                f"{path}: several columns are called '{twice[0]}'. Rename all but one of them."
            )
        yield table


def check_is_seekable(path: Path, kind: str) -> None:
    """Check that a file of this kind, of which the end is read first, is not standard input.

    Raises:
        InputError: it is standard input.
    """
    if path == STANDARD_INPUT:
        raise InputError(
            f"standard input: {kind} cannot be piped in, since its end is read first. Write it to "
            "a file, and name that file."
        )


@contextmanager
def open_seekable(path: Path, on_read: Any) -> Iterator[IO[bytes]]:
    """Open a file of which any part can be read; a compressed one is unpacked first.

    `on_read` is called with the number of bytes of each read from disk.

    Raises:
        InputError: the file is damaged, or the disk of temporary files is full.
    """
    compression = compression_of(path)
    with ExitStack() as stack:
        stream: IO[bytes] = stack.enter_context(open_path(path, compression, on_read))
        if compression is not None:
            plain = stack.enter_context(tempfile.TemporaryFile())
            unpack(stream, plain)
            stream = plain
        yield stream


def unpack(stream: io.BufferedReader | IO[bytes], plain: IO[bytes]) -> None:
    """Copy a stream to a temporary file, and go back to its start.

    Raises:
        InputError: the disk of temporary files is full or cannot be written.
    """
    while block := stream.read(1 << 20):
        try:
            plain.write(block)
        except OSError as error:
            raise write_error(Path(tempfile.gettempdir()), error) from error
    plain.seek(0)


def batches(path: Path, table: Any, columns: list[str] | None = None) -> Iterator[Any]:
    """Yield record batches of a few megabytes, with all columns or the named ones.

    Raises:
        InputError: a part of the file is damaged.
    """
    import pyarrow

    size = rows_at_once(table.metadata)
    record_batches = table.iter_batches(size, columns=columns, use_threads=False)
    while True:
        try:
            batch = next(record_batches, None)
        except (pyarrow.ArrowException, OSError) as error:
            raise damaged_table(path, error) from error
        if batch is None:
            return
        yield batch


def rows_at_once(metadata: Any) -> int:
    """Return the number of rows that take `BATCH_BYTES`, from 1 to 4,096."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    size = sum(group.total_byte_size for group in groups)
    fitting = int(BATCH_BYTES * metadata.num_rows // max(1, size))
    return max(1, min(4096, fitting))


def damaged_table(path: SourcePath, error: Exception) -> Exception:
    """Build the error for bytes that pyarrow cannot read; errors of the system stay as they are."""
    if isinstance(error, OSError) and error.errno is not None:
        return error
    problem = (str(error) or type(error).__name__).splitlines()[0]
    return InputError(
        f"{path}: damaged, or not a Parquet table ({problem}). Copy or download the file again."
    )


def _values(location: str, column: Any, num_before: int) -> list[Any]:
    """Return the Python values of a column, before which `num_before` rows were read.

    Raises:
        InputError: text that is not UTF-8, or a value for which Python has none, such as a date
            after the year 9999; names the row.
    """
    import pyarrow

    column_type = column.type
    if pyarrow.types.is_timestamp(column_type) and column_type.unit == "ns":
        # Python's timestamps have no nanoseconds.
        column = column.cast(pyarrow.timestamp("us", column_type.tz), safe=False)
    try:
        return column.to_pylist()
    except (ValueError, OverflowError):  # pyarrow's own errors about values are ValueErrors
        faults = map(_conversion_fault, column)
        index, fault = next((i, fault) for i, fault in enumerate(faults) if fault)
        raise InputError(f"{location}, row {num_before + 1 + index:,}: {fault}") from None


def _conversion_fault(value: Any) -> str | None:
    """Describe why a value of pyarrow cannot be converted to Python, with advice; else None."""
    try:
        value.as_py()
    except UnicodeDecodeError:
        return "not UTF-8. Fix the row."
    except (ValueError, OverflowError) as error:
        problem = str(error).rstrip(".")
        return (
            f"a value of the type {value.type} that Python cannot hold ({problem}). Fix the row, "
            "or write the file without this column."
        )
    return None

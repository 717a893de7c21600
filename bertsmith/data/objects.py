"""Read rows as dicts from jsonl, json and parquet files, or from memory."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeGuard, get_args

from bertsmith.data.json_rows import (
    as_json,
    decode_row,
    json_fault,
    json_type,
)
from bertsmith.data.json_stream import iter_list
from bertsmith.data.parquet_files import read_parquet
from bertsmith.data.text_files import ExampleSource, iter_lines, locate_row
from bertsmith.errors import InputError

ObjectFormat = Literal["jsonl", "json", "parquet"]


def holds_objects(format_: str) -> TypeGuard[ObjectFormat]:
    """Return whether the rows of a file of this format are objects, which name their values."""
    return format_ in get_args(ObjectFormat)


def read_objects(
    source: ExampleSource, file_format: ObjectFormat = "jsonl"
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the number and values of each row of a file, or of rows in memory.

    Numbers are from 1. In a jsonl file they are numbers of lines, and blank lines are skipped; in
    all else they are numbers of rows. NaN is read as null, since pandas writes missing values as
    NaN. Half a surrogate pair is read as U+FFFD.

    Args:
        file_format: the format of a file.

    Raises:
        InputError: the file cannot be read, or a row is not an object, has a key twice, is nested
            too deeply, or has a number that is too long.
    """
    if not isinstance(source, Path):
        yield from _read_mappings(source)
    elif file_format == "parquet":
        yield from read_parquet(source)
    elif file_format == "json":
        yield from _read_json(source)
    else:
        yield from _read_jsonl(source)


def _read_mappings(source: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for row, value in enumerate(source, start=1):
        if not isinstance(value, Mapping):
            raise InputError(
                f"{locate_row(source, row)}: found {json_type(value)}; a mapping of names to "
                'values is expected, such as {"text": "...", "label": "..."}. Fix the row.'
            )
        try:
            plain_value = as_json(value)
        except ValueError as error:
            raise InputError(
                f"{locate_row(source, row)}: not like JSON ({json_fault(error)}). Fix the row."
            ) from None
        yield row, plain_value


def _read_json(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for row, value in enumerate(iter_list(path), start=1):
        if not isinstance(value, dict):
            raise InputError(
                f"{locate_row(path, row)}: found {json_type(value)}; a list of objects is "
                'expected, such as [{"text": "...", "label": "..."}]. Fix the row.'
            )
        yield row, value


def _read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for row, line in enumerate(iter_lines(path), start=1):
        if not line.strip():
            continue
        try:
            value = decode_row(line.rstrip("\r\n"))
        except ValueError as error:
            raise InputError(
                f"{locate_row(path, row)}: not JSON ({json_fault(error)}). Fix the row: each line "
                "holds one JSON object."
            ) from None
        if not isinstance(value, dict):
            raise InputError(
                f"{locate_row(path, row)}: found {json_type(value)}; one JSON object per "
                'line is expected, such as {"text": "...", "label": "..."}. Fix the row.'
            )
        yield row, value

"""Names of classes in Parquet files that `datasets` wrote: the columns have their numbers."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertsmith.data.parquet_files import parquet_schema, read_parquet
from bertsmith.errors import InputError

MISSING_CLASS = -1
"""Number that `datasets` gives a row without a class."""
METADATA_KEY = b"huggingface"
"""Key under which a table's metadata describes its columns."""


def read_parquet_with_classes(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield rows as `read_parquet` does, with the names of classes in place of their numbers.

    Raises:
        InputError: as `read_parquet`, or a number is not that of a class.
    """
    names_of = read_class_names(path)
    for row, values in read_parquet(path):
        yield row, with_class_names(values, names_of, f"row {row} of {path}")


def read_class_names(path: Path) -> dict[str, list[str]]:
    """Return the names of a file's classes by column.

    Raises:
        InputError: as `read_parquet`.
    """
    return parquet_class_names(parquet_schema(path).metadata or {})


def with_class_names(
    row: Mapping[str, Any], names_of: Mapping[str, Sequence[str]], location: str
) -> dict[str, Any]:
    """Return a row with the names of classes in place of their numbers.

    As in memory, -1 is a missing class, so None.

    Raises:
        InputError: a number is not that of a class.
    """
    named = {
        column: _named(row[column], names, f"{location}: '{column}'")
        for column, names in names_of.items()
        if column in row
    }
    return {**row, **named}


def parquet_class_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """Return the names of the classes by column; empty if the metadata have none.

    >>> feature = '{"feature": {"names": ["O", "B-PER"], "_type": "ClassLabel"}, "_type": "List"}'
    >>> info = f'{{"info": {{"features": {{"tags": {feature}}}}}}}'
    >>> parquet_class_names({b"huggingface": info.encode()})
    {'tags': ['O', 'B-PER']}
    """
    try:
        features = json.loads(metadata.get(METADATA_KEY, b"null"))["info"]["features"].items()
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}
    names = {column: _names(feature) for column, feature in features}
    return {column: classes for column, classes in names.items() if classes}


def _names(feature: Any) -> list[str]:
    if isinstance(feature, list) and len(feature) == 1:  # how early versions write a sequence
        return _names(feature[0])
    if not isinstance(feature, Mapping):
        return []
    if feature.get("_type") == "ClassLabel" and isinstance(feature.get("names"), list):
        return list(map(str, feature["names"]))
    return _names(feature.get("feature"))


def _named(value: Any, names: Sequence[str], location: str) -> Any:
    """Return the name of a class, or those of a list; None for -1; all but numbers stays."""
    if isinstance(value, list):
        return [_named(number, names, location) for number in value]
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if value == MISSING_CLASS:
        return None
    if not 0 <= value < len(names):
        raise InputError(
            f"{location} has the class {value}, but the file names {len(names)} classes, from 0. "
            "Fix the row."
        )
    return names[value]

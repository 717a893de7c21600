"""Names of classes in Parquet files that `datasets` wrote: the columns have their numbers."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertsmith.data.parquet_files import parquet_schema, read_parquet
from bertsmith.errors import InputError

METADATA_KEY = b"huggingface"
"""Key under which a table's metadata describes its columns."""


def read_parquet_with_classes(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield rows as `read_parquet` does, with the names of classes in place of their numbers.

    Raises:
        InputError: as `read_parquet`, or a number that is no class's.
    """
    names_of = parquet_class_names(parquet_schema(path).metadata or {})
    for row, values in read_parquet(path):
        for column, names in names_of.items():
            if column in values:
                values[column] = _named(values[column], names, f"row {row} of {path}: '{column}'")
        yield row, values


def parquet_class_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """Return the names of the classes by column; none where the metadata say nothing of them.

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
    """Return the name of a class, or those of a list; whatever is no number stays."""
    if isinstance(value, list):
        return [_named(number, names, location) for number in value]
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if not 0 <= value < len(names):
        raise InputError(
            f"{location} has the class {value}, but the file names {len(names)} classes, from 0. "
            "Fix the row."
        )
    return names[value]

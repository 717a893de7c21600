"""Names of classes in Parquet files that Hugging Face's library `datasets` wrote.

The columns of such a file have the numbers of the classes; its metadata has their names.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertsmith.data.parquet_files import parquet_schema, read_parquet
from bertsmith.errors import InputError
from bertsmith.system.json_text import parse_json

MISSING_CLASS = -1
"""Number that `datasets` gives a row without a class."""
METADATA_KEY = b"huggingface"
"""Key under which a table's metadata describes its columns."""


def read_parquet_with_classes(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield rows as `read_parquet` does, with the names of classes in place of their numbers.

    Raises:
        InputError: as `read_parquet`, or a number stands for no class.
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

    The number -1 stands for a missing class and becomes None, as it does in tables in memory.

    Raises:
        InputError: a number stands for no class.
    """
    named = {
        column: _name_classes_of(row[column], names, f"{location}: '{column}'")
        for column, names in names_of.items()
        if column in row
    }
    return {**row, **named}


def parquet_class_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """Return the names of the classes by column; empty if the metadata has none.

    >>> feature = '{"feature": {"names": ["O", "B-PER"], "_type": "ClassLabel"}, "_type": "List"}'
    >>> info = f'{{"info": {{"features": {{"tags": {feature}}}}}}}'
    >>> parquet_class_names({b"huggingface": info.encode()})
    {'tags': ['O', 'B-PER']}
    """
    try:
        features = parse_json(metadata.get(METADATA_KEY, b"null"))["info"]["features"].items()
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}
    names = {column: _class_names_in(feature) for column, feature in features}
    return {column: classes for column, classes in names.items() if classes}


def _class_names_in(feature: Any) -> list[str]:
    """Return the names of the classes that a feature (a column) describes; empty if of none.

    The feature may also be a list of classes, or a list of lists.
    """
    while True:
        if isinstance(feature, list) and len(feature) == 1:  # a sequence, in early versions
            feature = feature[0]
        elif not isinstance(feature, Mapping):
            return []
        elif feature.get("_type") == "ClassLabel" and isinstance(feature.get("names"), list):
            return list(map(str, feature["names"]))
        else:
            feature = feature.get("feature")


def _name_classes_of(value: Any, names: Sequence[str], location: str) -> Any:
    """Replace the number of a class by its name, also in lists, and -1 by None; all else stays."""
    if isinstance(value, list):
        return [_name_classes_of(number, names, location) for number in value]
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

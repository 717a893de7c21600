"""The size of a request before its texts are encoded."""

from collections.abc import Mapping, Sequence
from typing import Any


def count_characters(records: Sequence[Mapping[str, Any]]) -> int:
    """Count the characters of all texts in records, also of those in lists."""
    return sum(
        sum(map(len, value)) if isinstance(value, list) else len(value)
        for record in records
        for value in record.values()
        if isinstance(value, str | list)
    )

"""The size of a request before its texts are encoded."""

from collections.abc import Mapping, Sequence
from typing import Any

CHARACTERS_PER_TOKEN = 4
"""About as many as in English; Chinese has one or two."""


def count_characters(records: Sequence[Mapping[str, Any]]) -> int:
    """Count the characters of all texts in records, also of those in lists."""
    return sum(
        sum(map(len, value)) if isinstance(value, list) else len(value)
        for record in records
        for value in record.values()
        if isinstance(value, str | list)
    )


def estimate_tokens(num_characters: int, max_tokens: int) -> int:
    """Estimate the number of tokens of texts that are not encoded yet, `max_tokens` at most."""
    return min(num_characters // CHARACTERS_PER_TOKEN, max_tokens)

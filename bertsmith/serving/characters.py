"""The size of a request, in characters and estimated tokens, before its texts are encoded."""

from collections.abc import Mapping, Sequence
from typing import Any

CHARACTERS_PER_TOKEN = 4
"""Characters of a token in English, about; a token of Chinese has one or two."""


def count_characters(records: Sequence[Mapping[str, Any]]) -> int:
    """Count the characters that a model reads; a prompt counts once for each of its choices.

    >>> count_characters([{"text": "abc", "pair": "de"}, {"text": "abc", "choices": ["d", "ef"]}])
    14
    """
    return sum(map(_count_in_record, records))


def _count_in_record(record: Mapping[str, Any]) -> int:
    choices = record.get("choices", [])
    num_readings = max(1, len(choices))  # the prompt is read beside each choice
    of_texts = sum(len(value) for value in record.values() if isinstance(value, str))
    return num_readings * of_texts + sum(map(len, choices))


def estimate_tokens(num_characters: int, max_tokens: int) -> int:
    """Estimate the number of tokens of texts that are not encoded yet, `max_tokens` at most.

    Callers want to know how long a request delays a new one. That is one batch at most, so their
    `max_tokens` is the size of a batch.
    """
    return min(num_characters // CHARACTERS_PER_TOKEN, max_tokens)

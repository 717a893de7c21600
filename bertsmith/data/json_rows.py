"""Decode JSON strictly, and describe its values in messages."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from bertsmith.errors import InputError
from bertsmith.system.json_text import TOO_DEEP

HALF_CHARACTER = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, by which JSON's escapes write an emoji; a text cut within an emoji has
one alone."""
ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""JSON's escapes of surrogates, which a UTF-8 file cannot hold unescaped."""
MISSING_TYPES = ("NAType", "NaTType")
"""Types, by name, of the values `NA` and `NaT`, which pandas has for a missing one beside NaN."""
JSON_TYPE_NAMES: Mapping[type, str] = {
    list: "a list",
    dict: "an object",
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}


class CutText(str):
    """Text in which U+FFFD, the replacement character, stands for half of a surrogate pair.

    `original` is the text with that half.

    As a text it is read like any other. As a label it is refused, because two labels that differ in
    that half would become one.
    """

    __slots__ = ("original",)

    original: str

    @classmethod
    def of(cls, original: str) -> "CutText":
        text = cls(HALF_CHARACTER.sub("\ufffd", original))
        text.original = original
        return text


def describe_cut_label(label: str) -> str:
    """Describe a label that has half of a surrogate pair; `label` still has it."""
    return (
        f"the label {label!r} has half of a surrogate pair, which no file of a model can hold. "
        "Give the label another name."
    )


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object from pairs, but refuse equal keys, of which Python's reader keeps the last.

    Raises:
        ValueError: a key appears twice.
    """
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key '{twice}' appears twice in an object")
    return members


JSON = json.JSONDecoder(
    parse_constant=lambda name: None if name == "NaN" else float(name),
    object_pairs_hook=unique_keys,
)
"""Decoder of rows: NaN is read as null, since pandas writes missing values so, and an object with
equal keys is refused."""


def decode_row(text: str) -> Any:
    """Parse the JSON of a row.

    Raises:
        ValueError: the text is not JSON, has an object with equal keys, or is nested too deep.
    """
    try:
        return without_half_characters(JSON.decode(text), text)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def without_half_characters(value: Any, source: str) -> Any:
    r"""Replace each half of a surrogate pair in a JSON value by U+FFFD, in a `CutText`.

    A UTF-8 file cannot hold such a half (`"\ud83d"`, of a text cut within an emoji). The row is
    kept, and its offsets stay valid.

    Args:
        value: the value that was read.
        source: the JSON text that it was read from, or more; the value is searched only if the text
            has an escape of such a half.

    Raises:
        ValueError: two keys of an object become one, or it is nested too deep.
    """
    return as_json(value) if ESCAPED_HALF.search(source) else value


def as_json(value: Any) -> Any:
    """Convert a Python value to one that JSON holds: numpy arrays to lists, NaN to None.

    The missing values of pandas, `NA` and `NaT`, become None, too. A text with half of a surrogate
    pair becomes `CutText`.

    Raises:
        ValueError: two keys of a mapping become one, or it is nested too deep.
    """
    try:
        return _as_json(value)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def _as_json(value: Any) -> Any:
    if isinstance(value, CutText):
        return value
    if isinstance(value, str):
        return CutText.of(value) if HALF_CHARACTER.search(value) else str(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    if isinstance(value, Mapping):
        converted = {_as_json(str(key)): _as_json(item) for key, item in value.items()}
        if len(converted) < len(value):
            raise ValueError("two keys have the same text, or differ only in half a surrogate pair")
        return converted
    is_missing = isinstance(value, float) and math.isnan(value)
    return None if is_missing or type(value).__name__ in MISSING_TYPES else value


def plain_number(value: Any) -> Any:
    """Convert a Decimal, as databases give numbers, to an int or float; all else stays.

    >>> plain_number(Decimal("2.50")), plain_number(Decimal(7)), plain_number("7")
    (2.5, 7, '7')
    """
    if not isinstance(value, Decimal):
        return value
    if not value.is_finite():
        return None if value.is_nan() else float(value)
    exponent = value.as_tuple().exponent
    # As an int, 1E+1000000 would have a million digits.
    return int(value) if isinstance(exponent, int) and 0 <= exponent < 30 else float(value)


def json_fault(error: ValueError) -> str:
    """Describe why a text could not be read as JSON, for messages."""
    if isinstance(error, json.JSONDecodeError):
        return f"{json_problem(error)} at column {error.colno:,}"
    return str(error)


def json_problem(error: json.JSONDecodeError) -> str:
    r"""Return Python's description of an error, without its end, which introduces a position.

    >>> json_problem(json.JSONDecodeError("Unterminated string starting at", "", 0))
    'Unterminated string starting'
    >>> json_problem(json.JSONDecodeError("Invalid \\escape: ", "", 0))
    'Invalid \\escape'
    """
    return error.msg.rstrip(": ").removesuffix(" at")


def json_type(value: Any) -> str:
    """Name the type of a JSON value, for messages."""
    value_type = str if isinstance(value, str) else type(value)
    return JSON_TYPE_NAMES.get(value_type) or f"of the type {type(value).__name__}"


def get_value(record: Any, key: str, expected_type: type, location: str) -> Any:
    """Return the value of a required key of an object at `location`.

    Raises:
        InputError: no such key, or a value of another type.
    """
    if not isinstance(record, Mapping):
        raise InputError(f"{location} is {json_type(record)}; an object is expected. Fix it.")
    if key not in record:
        raise InputError(f"{location}: no key '{key}'. Keys found: {list_names(record)}. Add it.")
    value = record[key]
    if not isinstance(value, expected_type) or (expected_type is int and isinstance(value, bool)):
        expected = "a whole number" if expected_type is int else JSON_TYPE_NAMES[expected_type]
        raise InputError(
            f"{location}: '{key}' is {json_type(value)}; {expected} is expected. Fix it."
        )
    return value


def list_names(names: Iterable[str]) -> str:
    """Format column names for a message; cut long names and long lists."""
    shown = [f"'{name}'" if len(name) <= 30 else f"'{name[:29]}…'" for name in names]
    more = f", … ({len(shown)} in all)" if len(shown) > 12 else ""
    return ", ".join(shown[:12]) + more or "none"

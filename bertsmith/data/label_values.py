"""Convert labels of any type to the names that a model stores, and names back to labels."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from bertsmith.data.json_rows import as_json, plain_number
from bertsmith.system.json_text import parse_json

LabelKind = Literal["int", "float", "bool"]
"""Type of labels that are not strings."""
LABEL_TYPES: Mapping[str, type] = {"int": int, "float": float, "bool": bool}


def label_name(label: Any) -> str:
    """Return the text by which models and files name a label.

    >>> label_name(" >50K"), label_name(1), label_name(True)
    (' >50K', '1', 'true')
    """
    value = plain_number(as_json(label))
    return value if isinstance(value, str) else json.dumps(value, default=str)


def label_values(names: Sequence[str], kind: LabelKind | None) -> tuple[Any, ...]:
    """Return the labels that have these names: `label_name` in reverse.

    `kind` is the type of the labels, or None for strings. All stay strings if one of the names is
    no value of this kind, for example because config.json was edited by hand.

    >>> label_values(["0", "1"], "int"), label_values(["no", "yes"], "int")
    ((0, 1), ('no', 'yes'))
    """
    if kind is None or kind not in LABEL_TYPES:
        return tuple(names)
    try:
        values = tuple(parse_json(name) for name in names)
    except ValueError:
        return tuple(names)
    return values if all(type(value) is LABEL_TYPES[kind] for value in values) else tuple(names)

"""Attention heads by their names on the page, such as "2.1": layer 2, head 1, counted from 1."""

from collections.abc import Iterable

from bertsmith.errors import SettingError
from bertsmith.inspection.layer_recorder import AttentionHead

MAX_HEAD_DIGITS = 9
"""Largest number of digits of a layer or head. Without a limit, Python would raise an error of its
own for 5,000 digits."""
MAX_QUOTED = 80
"""Largest number of characters of a wrong name in a message."""


def parse_heads(
    without: str | Iterable[str], num_layers: int, num_heads: int
) -> set[AttentionHead]:
    """Parse the names of heads to leave out, such as "2.1", into pairs (layer, head) from 0.

    `without` is the option `without` of `look`, one name or several.

    Raises:
        SettingError: there is no such layer or head.
    """
    names = (without,) if isinstance(without, str) else tuple(without)
    allowed = (
        f"LAYER.HEAD with layers 1 to {num_layers} and heads 1 to {num_heads}, such as "
        f"{num_layers}.1"
    )
    heads = set()
    for name in names:
        if not isinstance(name, str):  # as numbers, 2.10 and 2.1 are the same
            raise SettingError("without", name, f"a string, {allowed}")
        layer, _, head = name.partition(".")
        if not (_is_number_up_to(num_layers, layer) and _is_number_up_to(num_heads, head)):
            shown = name if len(name) <= MAX_QUOTED else f"{name[:MAX_QUOTED]}…"
            raise SettingError("without", shown, allowed)
        heads.add((int(layer) - 1, int(head) - 1))
    return heads


def _is_number_up_to(limit: int, digits: str) -> bool:
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= MAX_HEAD_DIGITS
    return is_number and 1 <= int(digits) <= limit

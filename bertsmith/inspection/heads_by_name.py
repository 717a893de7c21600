"""Heads by their names on the page, such as "2.1": layer 2, head 1, counted from 1."""

from collections.abc import Iterable

from bertsmith.errors import SettingError
from bertsmith.inspection.layer_recorder import Head


def parse_heads(without: str | Iterable[str], num_layers: int, num_heads: int) -> set[Head]:
    """Read heads such as "2.1", layer 2, head 1, to pairs of numbers from 0.

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
        layer, dot, head = str(name).partition(".")
        is_pair = bool(dot) and all(part.isascii() and part.isdecimal() for part in (layer, head))
        if not (is_pair and 1 <= int(layer) <= num_layers and 1 <= int(head) <= num_heads):
            raise SettingError("without", name, allowed)
        heads.add((int(layer) - 1, int(head) - 1))
    return heads

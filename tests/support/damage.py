"""Damage files in the ways of disks, broken downloads, editors and other programs."""

import copy
import random
from collections.abc import Iterator
from typing import Any

ODD_VALUES = (None, True, -1, 0, 10**30, 1.5, float("nan"), "", "x", [], ["a"], [[1]], {}, {"a": 1})
"""Values that JSON allows, of every type."""


def damages(content: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """Yield `count` copies of `content`, each with one random damage that changes it."""
    rng = random.Random(seed)
    while count:
        damaged = _damage(content, rng)
        if damaged != content:
            count -= 1
            yield damaged


def _damage(content: bytes, rng: random.Random) -> bytes:
    first, last = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    kind = rng.choice(["bit", "bytes", "cut", "left out", "doubled", "zeros"])
    if kind == "cut":
        return content[:first]
    if kind == "left out":
        return content[:first] + content[last:]
    if kind == "doubled":
        return content[:last] + content[first:]
    if kind == "zeros":
        return content[:first] + bytes(last - first) + content[last:]
    changed = bytearray(content)
    if kind == "bit":
        changed[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    else:
        for _ in range(rng.randrange(1, 20)):
            changed[rng.randrange(len(content))] = rng.randrange(256)
    return bytes(changed)


def odd_values(content: dict[str, Any], count: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Yield `count` copies of a JSON file's content, with one value removed or replaced in each."""
    rng = random.Random(seed)
    for _ in range(count):
        changed = parent = copy.deepcopy(content)
        while True:
            key = rng.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))
            if not (isinstance(parent[key], dict | list) and parent[key] and rng.random() < 0.7):
                break
            parent = parent[key]
        if rng.random() < 0.1:
            del parent[key]
        else:
            parent[key] = rng.choice(ODD_VALUES)
        yield changed

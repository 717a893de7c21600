"""Random strings made to find disagreement between two tokenizers."""

import random
from collections.abc import Callable

from bertsmith.tokenization.normalize import code_ranges, kept_marks

LATIN = "abcdefghijklmnopqrstuvwxyzABCXYZ0123456789"
SPECIAL = ["[MASK]", "[CLS]", "[SEP]", "[UNK]", "[PAD]", "[mask]", "[MASK", "##ing", " [MASK] "]
Generator = Callable[[random.Random], str]


def _one_of(*choices: str) -> Generator:
    return lambda rng: rng.choice(choices)


def _between(*ranges: tuple[int, int]) -> Generator:
    return lambda rng: chr(rng.randrange(*rng.choice(ranges)))


def _table(name: str) -> Generator:
    return _one_of(*code_ranges(name))


def _word(rng: random.Random) -> str:
    return "".join(rng.choices(LATIN[:26], k=rng.randrange(1, 9))) + rng.choice(" ,. ")


CONTROLS = [char for char in code_ranges("REMOVED") if not "\ue100" <= char <= "\uf8ff"]
GENERATORS: list[Generator] = [
    _between((0, 0xD800), (0xE000, 0x110000)),
    _between((0, 0xD800), (0xE000, 0x10000)),
    _between((0, 0x80)),
    _between((0x80, 0x600)),
    _between((0x4E00, 0xA000), (0x3400, 0x4DC0), (0x20000, 0x2FA20), (0xF900, 0xFB00)),
    _between((0x3000, 0x3100), (0xFF00, 0xFFF0)),
    _between((0xAC00, 0xD7A4), (0x1100, 0x1200), (0x3130, 0x3190)),
    _between((0x1F300, 0x1FB00), (0x2600, 0x27C0), (0x200D, 0x200E), (0xFE0F, 0xFE10)),
    _between((0x590, 0x800), (0x8A0, 0x900), (0xFB1D, 0xFE00), (0x200F, 0x2010)),
    _between((0x900, 0x1100)),
    _between((0x1D150, 0x1D200), (0x1E000, 0x1E030), (0x302E, 0x3030)),
    _one_of(*LATIN),
    _word,
    _one_of(*SPECIAL),
    _one_of(*CONTROLS[:400], *CONTROLS[-40:]),
    _one_of(*sorted(kept_marks())),
    *map(_table, ("REORDERED", "NONSPACING", "PUNCTUATION", "WHITESPACE")),
    _one_of(*(char for char in code_ranges("DECOMPOSED") if not "\uac00" <= char <= "\ud7a3")),
]


def unicode_string(rng: random.Random) -> str:
    """Make a string of up to 21 draws from a few kinds of characters; a few have a long word."""
    kinds = rng.choices(GENERATORS, k=rng.randrange(1, 5))
    count = rng.choice((1, 2, 3, 5, 8, 13, 21))
    text = "".join(rng.choice(kinds)(rng) for _ in range(count))
    if rng.random() < 0.003:
        text += rng.choice("aé漢1\u0301") * rng.randrange(95, 106)
    return text

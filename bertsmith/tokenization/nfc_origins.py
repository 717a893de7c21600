"""The characters of a text from which those of its composed form (NFC) come."""

import unicodedata
from collections import deque
from itertools import groupby


def align_composed(text: str) -> list[int]:
    """Return the index in `text` of the origin of each character of its NFC.

    The origins are those of the `tokenizers` library, which counts them in three steps:

    1. Characters are decomposed. The first part of a character counts as original, its other parts
       as inserted.
    2. Marks are put in order.
    3. Parts are composed. The origin of a composed character is the next unused index, and the
       character uses one index for each of its original parts. A character of inserted parts only
       has the last used index as its origin.
    """
    parts: deque[tuple[str, int]] = deque()
    decomposed = ((part, int(i > 0)) for char in text for i, part in enumerate(decompose(char)))
    for is_mark, group in groupby(decomposed, key=lambda part: unicodedata.combining(part[0]) > 0):
        by_class = sorted(group, key=lambda part: unicodedata.combining(part[0]) * is_mark)
        parts.extend(by_class)
    origins = []
    used = 0
    for char in unicodedata.normalize("NFC", text):
        inserted = 0
        char_parts = decompose(char)
        for part in char_parts:
            index = next(i for i, (other, _) in enumerate(parts) if other == part)
            inserted += parts[index][1]
            del parts[index]
        count = len(char_parts) - inserted
        origins.append(used if count else max(0, used - 1))
        used += count
    return origins


def decompose(text: str) -> str:
    """Normalize text to NFD."""
    return unicodedata.normalize("NFD", text)

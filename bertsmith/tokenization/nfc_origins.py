"""Alignment of a text with its composed form (NFC): the origin of each composed character.

ModernBERT's tokenizer composes a text before it cuts it, and offsets are those of the original.
"""

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
    decomposed = [(part, i > 0) for char in text for i, part in enumerate(decompose(char))]
    # Each part, and whether it counts as inserted.
    parts: deque[tuple[str, bool]] = deque()
    for is_mark, group in groupby(decomposed, key=lambda part: unicodedata.combining(part[0]) > 0):
        run = list(group)
        if is_mark:
            run.sort(key=lambda part: unicodedata.combining(part[0]))
        parts.extend(run)
    origins = []
    num_used = 0  # indices of `text`
    for char in unicodedata.normalize("NFC", text):
        num_original = 0
        for part in decompose(char):
            index = next(i for i, (other, _) in enumerate(parts) if other == part)
            _, is_inserted = parts[index]
            num_original += not is_inserted
            del parts[index]
        origins.append(num_used if num_original else max(0, num_used - 1))
        num_used += num_original
    return origins


def decompose(text: str) -> str:
    """Normalize text to NFD."""
    return unicodedata.normalize("NFD", text)

"""SentencePiece's normalization table (charsmap), which replaces strings by others.

A unigram tokenizer, ALBERT's, normalizes text with the table of its model file.
"""

import re
from functools import cache

import numpy as np

from bertsmith.errors import ConfigError
from bertsmith.tokenization.normalize import character_class

MAX_CLUSTER_BYTES = 5
"""Bytes of the longest grapheme cluster that is looked up whole. Clusters that are not a character
with its marks (Korean syllables, flags, families of emoji) are longer, so `cluster_pattern` needs
no rules for them."""


@cache
def cluster_pattern() -> re.Pattern[str]:
    """Compile a pattern that splits text into grapheme clusters, without gaps.

    A cluster is what a reader sees as one character, such as a letter with its accents (Unicode
    Standard Annex 29).
    """
    # Joining characters belong to the cluster before them, prepended ones to the one after them;
    # nothing joins characters apart, such as controls.
    joining, apart = character_class("JOINING"), character_class("APART")
    prepended = character_class("PREPENDED")
    return re.compile(
        rf"\r\n|[{prepended}]*[^{apart}{joining}{prepended}][{joining}]*"
        rf"|[{prepended}]+[{joining}]*|[{joining}]+|[\s\S]"
    )


class CharacterMap:
    """Lookup table of a model's charsmap.

    The table is a size in bytes, a double-array trie (Aoe 1989, in darts-clone's layout), and the
    normalized strings that its leaves point to, each ended by a zero byte. As in the `tokenizers`
    library (Precompiled) it is applied to whole grapheme clusters of up to five bytes, else
    character by character. The shortest key that a cluster begins with decides.

    Raises:
        ConfigError: the table is cut short.
    """

    def __init__(self, table: bytes) -> None:
        size = int.from_bytes(table[:4], "little")
        if not size or size % 4 or len(table) < 4 + size:
            raise ConfigError(
                f"the normalization table has {len(table):,} bytes, and its trie alone should have "
                f"{size:,}. Get the file again."
            )
        self._units = np.frombuffer(table, "<u4", size // 4, 4).tolist()
        self._strings = table[4 + size :]
        self._images: dict[str, str | None] = {}  # a cache of `_look_up`

    def image(self, text: str) -> str | None:
        """Return the normalized string of the shortest key that `text` begins with; else None."""
        if text not in self._images:
            if len(self._images) > 1 << 16:
                self._images.clear()
            self._images[text] = self._look_up(text.encode())
        return self._images[text]

    def _look_up(self, key: bytes) -> str | None:
        """Walk the trie along the bytes of `key`, to the first leaf.

        The lowest byte of a unit is the byte of the key that leads to the unit. Bit 8 says that the
        unit has a leaf. The leaf is the unit at the base of its children (`_base_of_children`). Bit
        31 marks it, so that no byte leads to it, and its other bits are the index of the
        normalized string in `_strings`.
        """
        units = self._units
        index = self._base_of_children(0)
        for byte in key:
            index ^= byte
            if byte == 0 or index >= len(units) or units[index] & 0x800000FF != byte:
                return None
            has_leaf = units[index] & 1 << 8
            index = self._base_of_children(index)
            if has_leaf:
                return self._string(units[index] & 0x7FFFFFFF if index < len(units) else -1)
        return None

    def _base_of_children(self, index: int) -> int:
        """Return the base of the children of the unit at `index`; a child is at base XOR its byte.

        The unit's bits from 10 on are an offset; bit 9 says that the offset counts 256 units each.
        """
        unit: int = self._units[index]
        return index ^ (unit >> 10) << ((unit & 1 << 9) >> 6)

    def _string(self, start: int) -> str:
        end = self._strings.find(b"\0", max(start, 0))
        if start < 0 or end < 0:
            raise ConfigError("the normalization table is damaged. Get the file again.")
        return self._strings[start:end].decode("utf-8", "replace")

    def align(self, text: str) -> tuple[str, list[int]]:
        """Normalize text; also return the index in `text` of each character's origin."""
        images: list[str] = []
        origins: list[int] = []
        start = 0
        for cluster in cluster_pattern().findall(text):
            parts = [cluster]
            if len(cluster) > 1 and not self._is_mapped_whole(cluster):
                parts = list(cluster)
            for part in parts:
                image = self.image(part)
                if image is None:
                    image = part
                images.append(image)
                # Characters of the image are aligned one to one with those of the part; further
                # ones have the last character as origin.
                origins += [start + min(i, len(part) - 1) for i in range(len(image))]
                start += len(part)
        return "".join(images), origins

    def _is_mapped_whole(self, cluster: str) -> bool:
        """Return whether the table has a string for a cluster of several characters."""
        return len(cluster.encode()) <= MAX_CLUSTER_BYTES and self.image(cluster) is not None

"""SentencePiece's text normalization by the precompiled charsmap of a model.

The table is a size in bytes, a double-array trie of that size (Aoe 1989, in darts-clone's layout),
and the normalized strings that its leaves point to, each ended by a zero byte. It is applied to
whole grapheme clusters of up to five bytes, else character by character, and the shortest key that
a cluster begins with counts: so does the `tokenizers` library (Precompiled), and models are used
with its results.
"""

import re
from functools import cache

import numpy as np

from bertsmith.errors import ConfigError
from bertsmith.tokenization.normalize import code_ranges

LONGEST_CLUSTER = 5
"""Bytes of the longest cluster that is looked up whole. Clusters by rules other than marks
(syllables, flags, families) are longer, so `cluster_pattern` needs no such rules."""


@cache
def character_class(*names: str) -> str:
    """Build the inside of a regular expression's character class from `unicode_tables`."""
    ranges = [pair for name in names for pair in code_ranges(name).ranges]
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in ranges)


@cache
def cluster_pattern() -> re.Pattern[str]:
    """Compile a pattern that splits text into grapheme clusters, without gaps."""
    joining, apart = character_class("JOINING"), character_class("APART")
    prepended = character_class("PREPENDED")
    return re.compile(
        rf"\r\n|[{prepended}]*[^{apart}{joining}{prepended}][{joining}]*"
        rf"|[{prepended}]+[{joining}]*|[{joining}]+|[\s\S]"
    )


class CharacterMap:
    """Lookup table of a model's charsmap.

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
        self._images: dict[str, str | None] = {}

    def image(self, text: str) -> str | None:
        """Look up the shortest key that `text` begins with; None without one."""
        if text not in self._images:
            if len(self._images) > 1 << 16:
                self._images.clear()
            self._images[text] = self._look_up(text.encode())
        return self._images[text]

    def _look_up(self, key: bytes) -> str | None:
        units = self._units
        place = self._child(0, 0)
        for byte in key:
            place ^= byte
            if byte == 0 or place >= len(units) or units[place] & 0x800000FF != byte:
                return None
            has_leaf = units[place] & 1 << 8
            place = self._child(place, place)
            if has_leaf:
                return self._string(units[place] & 0x7FFFFFFF if place < len(units) else -1)
        return None

    def _child(self, place: int, base: int) -> int:
        unit: int = self._units[place]
        return base ^ (unit >> 10) << ((unit & 1 << 9) >> 6)

    def _string(self, start: int) -> str:
        end = self._strings.find(b"\0", max(start, 0))
        if start < 0 or end < 0:
            raise ConfigError("the normalization table is damaged. Get the file again.")
        return self._strings[start:end].decode("utf-8", "replace")

    def align(self, text: str) -> tuple[str, list[int]]:
        """Normalize text; also returns each character's place of origin in `text`."""
        images: list[str] = []
        places: list[int] = []
        place = 0
        for cluster in cluster_pattern().findall(text):
            parts = [cluster]
            if len(cluster) > 1 and (
                len(cluster.encode()) > LONGEST_CLUSTER or self.image(cluster) is None
            ):
                parts = list(cluster)
            for part in parts:
                image = self.image(part)
                if image is None:
                    image = part
                images.append(image)
                # Aligned one to one; surplus characters come from the last one of the origin.
                places += [place + min(i, len(part) - 1) for i in range(len(image))]
                place += len(part)
        return "".join(images), places

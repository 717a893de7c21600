"""Settings for building a corpus, and the number of the shard that one job encodes."""

import re
from dataclasses import dataclass

from bertsmith.data.reading import Errors
from bertsmith.errors import ConfigError, SettingError, option

SHARD_TOKENS = 1 << 25
"""Number of tokens at which a shard, a file of a corpus, ends: 64 MiB of uint16. It may be a little
longer, since documents are written in blocks."""
MAX_SHARD_TOKENS = 1 << 31
"""Largest allowed number. Positions in a shard are uint32, which leaves as much again for the last
block."""


@dataclass(frozen=True)
class CorpusSettings:
    """Settings of the corpus; saved in its manifest."""

    text_column: str = "text"
    """Text column of .jsonl, .csv, .tsv and .parquet files."""
    held_out: float = 0.01
    """Held-out share: the part of the documents kept out of training for evaluation; chosen by
    their text."""
    errors: Errors = "strict"
    """Lines or rows that cannot be read: stop at the first (strict), or skip and count them (skip).
    """
    deduplicate: bool = False
    """Deduplication: leave out documents that are equal to an earlier one, to the letter; they are
    counted."""
    shard_tokens: int = SHARD_TOKENS
    """Shard size: the number of tokens in a file before the next one is begun."""

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1:
            raise SettingError("held_out", self.held_out, "0 or more, below 1")
        if not 1 <= self.shard_tokens <= MAX_SHARD_TOKENS:
            raise ConfigError(
                f"{option('shard_tokens', self.shard_tokens)}: allowed is 1 to {MAX_SHARD_TOKENS}."
            )


@dataclass(frozen=True, slots=True)
class ShardNumber:
    """Number of the share of the texts that one job encodes (`--shard`), from 1 to `total`.

    Elsewhere a shard is a file of a corpus.
    """

    number: int
    total: int

    @classmethod
    def parse(cls, text: str) -> "ShardNumber":
        """Parse a number and total such as 3/16.

        Raises:
            SettingError: the text has another form, or the number is not from 1 to the total.
        """
        match = re.fullmatch(r"(\d{1,5})/(\d{1,5})", text)
        shard = cls(int(match[1]), int(match[2])) if match else cls(0, 0)
        if not 1 <= shard.number <= shard.total:
            raise SettingError(
                "shard", text, "a number and the total, such as 3/16 for the third of 16"
            )
        return shard

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"

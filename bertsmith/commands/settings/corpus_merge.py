"""Options of `bertsmith corpus merge`: each field is one, and its docstring is the help."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tyro

from bertsmith.commands.flags import parse_settings


@dataclass(frozen=True)
class Settings:
    """Make a corpus of the shards that 'corpus build --shard' has encoded.

    The corpus has the same bytes as one that a single process builds from the texts. What the
    shards have encoded is removed once the corpus is complete.
    """

    corpus: tyro.conf.Positional[Path]
    """The folder that the shards were given as --out."""
    json: bool = False
    """Print one JSON object instead of text."""


parse = partial(parse_settings, Settings)

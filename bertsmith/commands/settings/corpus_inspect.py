"""Options of `bertsmith corpus inspect`: each field is one, and its docstring is the help."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tyro

from bertsmith.commands.flags import parse_settings


@dataclass(frozen=True)
class Settings:
    """Show the contents of a corpus: counts, lengths, skipped texts, and a few examples.

    The checksum of each of the corpus's files is compared with the one that its manifest lists. If
    the command ends without an error, no file of the corpus is damaged or missing.
    """

    corpus: tyro.conf.Positional[Path]
    """The corpus folder, as written by 'corpus build'."""
    examples: int = 3
    """Number of documents of each split whose beginning is shown."""
    page: Path | None = None
    """HTML page to write, with the same contents and histograms."""
    json: bool = False
    """Print one JSON object instead of text."""


parse = partial(parse_settings, Settings)

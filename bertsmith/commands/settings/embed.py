"""Options of `bertsmith embed`: each field is one, and its docstring is the help."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import tyro

from bertsmith.commands.flags import parse_settings
from bertsmith.data.columns import Columns
from bertsmith.system.compute import InferenceCompute


@dataclass(frozen=True)
class Settings(InferenceCompute):
    """Turn texts into vectors; the cosine of two vectors says how similar their texts are.

    The vectors are in the order of the texts; a row that --skip-incomplete leaves out has none.
    Files may be of any size.
    """

    model: tyro.conf.Positional[Path]
    """Folder of a BERT. If it holds a sentence encoder, pooling and maximum length are read from
    it."""
    file: tyro.conf.Positional[Path]
    """Texts: .txt with one text per line, or .csv, .tsv, .jsonl, .json, .parquet or .xlsx; also as
    .gz, .xz or .zst; or - for one text per line from standard input."""
    out: Path
    """Output file: .npy (one fp32 array, [texts, hidden]) or .jsonl (one object per text)."""
    columns: Columns = field(default_factory=Columns)
    pooling: Literal["mean", "first_token", "pooler"] | None = None
    """Pooling of token vectors to one: the mean over the tokens, the vector of [CLS] (first_token),
    or the pooler's output. Default: as set in the folder, else mean."""
    normalize: bool = False
    """Normalization: scale every vector to length 1. The dot product of two vectors is then their
    cosine."""
    max_length: int | None = None
    """Maximum length: cut texts to this many tokens. Default: the model's maximum."""
    json: bool = False
    """Print one JSON object instead of text."""


parse = partial(parse_settings, Settings)

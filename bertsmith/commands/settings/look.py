"""Options of `bertsmith look`: each field is one, and its docstring is the help."""

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
    """Look inside a model while it reads a text, on a page that can be mailed.

    The page is one HTML file, which needs no network: the attention of every head, the prediction
    with the words that count for it, and what each layer would predict.
    """

    model: tyro.conf.Positional[Path]
    """Folder of a model, pre-trained or fine-tuned."""
    text: tyro.conf.Positional[str]
    """A text in quotes; for a pre-trained model, with [MASK] in place of a word to predict."""
    out: Path
    """HTML page to write."""
    pair: tuple[str, ...] = ()
    """Second text, in quotes; or the passage of a question, the choices of a prompt, or the target
    of a Transformer or T5."""
    data: Path | None = None
    """File of texts, for statistics of the heads and a map of the texts: .txt with one text per
    line, or .csv, .tsv, .jsonl, .json, .parquet or .xlsx; also as .gz, .xz or .zst."""
    num_texts: int | None = None
    """Number of texts that are read from --data, from the first. Default: 200."""
    checkpoints: bool = False
    """Look at the checkpoints of the folder's run, too: a slider shows how the heads form."""
    without: tuple[str, ...] = ()
    """Heads as LAYER.HEAD, counted from 1, such as 2.1: compare the prediction with that of the
    model without them."""
    words: bool = False
    """Show words instead of tokens at first."""
    language: Literal["en", "zh"] = "en"
    """Language of the page."""
    max_length: int | None = None
    """Maximum number of tokens on the page. Default: 128, fewer for large models."""
    columns: Columns = field(default_factory=Columns)
    precision: tyro.conf.Suppress[Literal["fp32"]] = field(default="fp32", kw_only=True)
    """Number format of the computation; gradients need fp32."""


parse = partial(parse_settings, Settings)

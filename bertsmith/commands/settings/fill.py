"""Options of `bertsmith fill`: each field is one, and its docstring is the help."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tyro

from bertsmith.commands.flags import parse_settings
from bertsmith.system.compute import InferenceCompute


@dataclass(frozen=True)
class Settings(InferenceCompute):
    """Fill in the hidden words of a text with a pre-trained BERT.

    Write [MASK] (for RoBERTa, <mask>) in place of each word to guess. This shows what a model knows
    about your language before it is fine-tuned.
    """

    model: tyro.conf.Positional[Path]
    """Folder of a pre-trained model."""
    text: tyro.conf.Positional[str]
    """A text with [MASK] in one or more places, in quotes."""
    top: int = 5
    """Number of tokens to show for each [MASK], the likeliest first."""
    json: bool = False
    """Print one JSON object instead of text."""


parse = partial(parse_settings, Settings)

"""Options of `bertsmith demo`: each field is one, and its docstring is the help."""

from dataclasses import dataclass
from functools import partial

from bertsmith.commands.flags import parse_settings
from bertsmith.demo.settings import DemoSettings


@dataclass(frozen=True)
class Settings(DemoSettings):
    """Train and evaluate a BERT on the documentation that is on this computer.

    Learns a vocabulary from the documentation of Python and of the installed packages, and
    pre-trains a small BERT on these texts. Then fine-tunes the BERT with a few labelled paragraphs,
    to tell which library a text is about. Compares it with the same model without pre-training, and
    with plain methods (one of them needs scikit-learn, and is left out without it). Needs no
    download. At the end, open report.html.
    """

    json: bool = False
    """Print one JSON object instead of text."""


parse = partial(parse_settings, Settings)

"""Options of `bertsmith hardware`: each field is one, and its docstring is the help."""

from dataclasses import dataclass
from functools import partial

from bertsmith.commands.flags import parse_settings


@dataclass(frozen=True)
class Settings:
    """Show how fast this computer multiplies matrices, and how bertsmith therefore computes.

    BERT spends nearly all of its time on matrix products. Their speeds are measured once and
    stored; a run then uses the fastest way with the promised accuracy. Speeds are measured again if
    they are a month old, if other programs kept the computer busy before, or if a short trial at
    the start of a run differs by a factor of 1.5. Nothing is measured again while another program
    keeps the computer busy.
    """

    json: bool = False
    """Print one JSON object instead of text."""
    fresh: bool = False
    """Measure the CPU, and a GPU if there is one, again and store the results, for example if the
    computer was busy before."""


parse = partial(parse_settings, Settings)

"""Settings of `bertsmith hardware`."""

from dataclasses import dataclass
from functools import partial

from bertsmith.commands.flags import parse_settings


@dataclass(frozen=True)
class Settings:
    """Show how fast this computer multiplies matrices, and what bertsmith therefore uses.

    Nearly all of BERT's time goes into matrix products. The figures are measured once and
    remembered; a run then uses the fastest way that keeps the promised accuracy. They are measured
    again after a month, if other programs kept the computer busy, or if a short trial at the start
    of a run is off by a factor of 1.5.
    """

    json: bool = False
    """Print one JSON object instead of text."""
    fresh: bool = False
    """Measure again, and remember that: the computer may have been busy the first time."""


parse = partial(parse_settings, Settings)

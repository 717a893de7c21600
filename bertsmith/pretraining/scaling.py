"""Forecast the time of a step on several ranks (machines or GPUs), by the bytes that they exchange.

In a step each of P ranks updates one range, N/P of the N weights. It sends its gradients of all
other ranges, (P - 1)/P·N numbers, and receives as many for its own. Then it sends its updated
weights to all others, again as many numbers, and receives theirs. Together that is 2·N·(P - 1)/P
numbers each way (Rajbhandari et al. 2020, arXiv 1910.02054, section 7), whether or not the ranks
form a ring.
"""

import re
from dataclasses import dataclass

from bertsmith.errors import SettingError

BYTES_PER_NUMBER = 4
"""Gradients and weights are exchanged in fp32."""
UNITS = {"bit": 1 / 8, "B": 1.0}
"""Bytes of each unit of a bandwidth."""
PREFIXES = {"M": 1e6, "G": 1e9}


@dataclass(frozen=True)
class Scaling:
    """A step of `step_seconds` on one rank, divided among `num_ranks`."""

    num_ranks: int
    parameters: int
    """Number of weights of the model."""
    step_seconds: float
    bytes_per_second: float
    """Bandwidth of each rank, in each direction."""

    @property
    def num_bytes(self) -> float:
        """The bytes that each rank sends in a step; it receives the same number."""
        share_of_others = (self.num_ranks - 1) / self.num_ranks
        return 2 * BYTES_PER_NUMBER * self.parameters * share_of_others

    @property
    def collective_seconds(self) -> float:
        """The seconds of a step in which ranks exchange gradients and weights."""
        return self.num_bytes / self.bytes_per_second

    @property
    def seconds(self) -> float:
        """The seconds of a step on all ranks, which share the rows of the step on one rank."""
        return self.step_seconds / self.num_ranks + self.collective_seconds

    @property
    def efficiency(self) -> float:
        """The share, 0 to 1, of the ranks' time in which they compute."""
        return self.step_seconds / (self.num_ranks * self.seconds)


def parse_bandwidth(text: str) -> float:
    """Convert a bandwidth, such as 1Gbit or 25GB (per second), to bytes per second.

    >>> parse_bandwidth("1Gbit"), parse_bandwidth("100 Mbit/s"), parse_bandwidth("25GB")
    (125000000.0, 12500000.0, 25000000000.0)

    Raises:
        SettingError: the text is not a number with Mbit, Gbit, MB or GB.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([MG])(bit|B)(?:/s)?", text.strip())
    speed = 0.0 if match is None else float(match[1]) * PREFIXES[match[2]] * UNITS[match[3]]
    if speed == 0:
        raise SettingError("bandwidth", text, "a speed such as 1Gbit, 100Mbit or 25GB")
    return speed

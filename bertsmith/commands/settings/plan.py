"""Options of `bertsmith plan`: each field is one, and its docstring is the help.

Only --help-all shows options whose type is `Advanced`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from bertsmith.commands.flags import parse_with_recipe, unset_other
from bertsmith.commands.settings import pretrain
from bertsmith.errors import SettingError
from bertsmith.pretraining.scaling import parse_bandwidth
from bertsmith.system.bounds import check_upper_limits
from bertsmith.system.compute import Advanced


@dataclass(frozen=True)
class Settings(pretrain.Settings):
    """Estimate what a pre-training run takes: time, memory, arithmetic and epochs.

    Takes the recipe and the options of `bertsmith pretrain`, and writes no run. Time and memory
    are measured on this computer: the run is prepared, and its steps are timed for a few seconds.
    """

    # Options of `pretrain` that have no effect here; they exist so that its recipes can be used.
    out: tyro.conf.Suppress[Path | None] = None  # type: ignore[assignment]
    resume: tyro.conf.Suppress[bool] = False
    overwrite: tyro.conf.Suppress[bool] = False
    page: tyro.conf.Suppress[Path | None] = None
    nodes: int = 1
    """Number of machines like this one on which the run is planned."""
    ranks: int = 1
    """Number of ranks (processes that torchrun starts) on each of these machines. Give 1 for a
    machine without GPUs, otherwise the number of its GPUs."""
    bandwidth: str = "1Gbit"
    """Speed of the network between the machines in each direction, such as 1Gbit, 100Mbit or
    25GB per second."""
    measure_seconds: Advanced[float] = 5.0
    """Seconds for which steps are timed, after a few steps to warm up."""

    def __post_init__(self) -> None:
        check_upper_limits(self)
        parse_bandwidth(self.bandwidth)  # raises an error for a wrong spelling
        for name in ("nodes", "ranks"):
            if getattr(self, name) < 1:
                raise SettingError(name, getattr(self, name), "1 or more")
        if not self.measure_seconds > 0:
            raise SettingError("measure_seconds", self.measure_seconds, "a number above 0")


def parse(args: Sequence[str], prog: str) -> Settings:
    """Parse recipe and flags; --minutes or --steps on the line unsets the other in the recipe."""
    return parse_with_recipe(Settings, unset_other(args, "minutes", "steps"), prog, kind="pretrain")

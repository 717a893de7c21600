"""Settings of `bertsmith plan`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from bertsmith.commands.flags import parse_with_recipe, unset_other
from bertsmith.commands.settings import pretrain
from bertsmith.errors import ConfigError
from bertsmith.pretraining.accelerators import Hardware, accelerators
from bertsmith.system.bounds import check_all_largest
from bertsmith.system.compute import Advanced


@dataclass(frozen=True)
class Settings(pretrain.Settings):
    """Estimate what a pre-training run takes: time, memory, arithmetic and epochs.

    Takes the recipe and the options of `bertsmith pretrain`, and writes nothing. Time and memory
    are measured on this computer in a few seconds of real steps. Without --corpus, random text of
    the same row length is used.
    """

    corpus: Path | None = None  # type: ignore[assignment]
    """Folder that `bertsmith corpus build` wrote. Default: random text."""
    # Options of `pretrain` that mean nothing here, so that its line can be given as it is.
    out: tyro.conf.Suppress[Path | None] = None  # type: ignore[assignment]
    resume: tyro.conf.Suppress[bool] = False
    overwrite: tyro.conf.Suppress[bool] = False
    page: tyro.conf.Suppress[Path | None] = None
    vocab_size: int | None = None
    """Vocabulary size of the random text, in tokens. Default: 30,522, as in the released English
    models."""
    measure_seconds: Advanced[float] = 5.0
    """Seconds for which real steps are timed; 0 leaves that out."""
    hardware: tuple[Hardware, ...] = ()
    """Other hardware to forecast the time on, by its published speed in bf16."""
    flops: Advanced[float | None] = None
    """Speed of other hardware to forecast the time on, in operations a second, such as 989e12."""
    efficiency: Advanced[float] = 0.4
    """Model FLOPs utilization: the share of its published speed that training is assumed to reach
    on other hardware. Small models reach far less, since their products are too small for it."""

    def __post_init__(self) -> None:
        check_all_largest(self)
        if self.measure_seconds < 0:
            found = self.measure_seconds
            raise ConfigError(f"--measure-seconds: found {found:g}; allowed is 0 or more.")
        if self.corpus is not None and self.vocab_size is not None:
            raise ConfigError(
                f"--vocab-size: found {self.vocab_size} beside the corpus {self.corpus}, which has "
                "a vocabulary. Leave one of them out."
            )
        accelerators(self.hardware, self.flops, self.efficiency)


def parse(args: Sequence[str], prog: str) -> Settings:
    """Parse recipe and flags; a given length unsets the recipe's other kind."""
    return parse_with_recipe(Settings, unset_other(args, "minutes", "steps"), prog, kind="pretrain")

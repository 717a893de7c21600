"""Weights & Biases: a run's metrics on its server, or without a key in files of the run's folder.

bertsmith does not ask for a key: without one the run is recorded offline, for `wandb sync`.
WANDB_PROJECT, WANDB_ENTITY, WANDB_MODE and the like have their usual effects.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertsmith.errors import ConfigError, option, warn_once
from bertsmith.training.trackers.tracker import Tracker

FOLDER = "wandb"
"""The folder within a run's folder where wandb writes."""


def begin_wandb(directory: Path, config: Mapping[str, Any]) -> Tracker:
    """Begin a run of wandb with the name of the folder, and store the settings in `config`.

    Raises:
        ConfigError: wandb fails, for example because its server cannot be reached.
    """
    import wandb

    mode = os.environ.get("WANDB_MODE")
    if mode is None and not wandb.login(prompt=False, verify=False):
        mode = "offline"
        warn_once(
            "wandb: found no API key, so the run is recorded in "
            f"{directory / FOLDER}. Set WANDB_API_KEY, and send it with 'wandb sync'."
        )
    has_files = (directory / FOLDER).exists()
    try:
        run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "bertsmith"),
            name=directory.resolve().name,
            dir=directory,
            config=dict(config),
            settings=wandb.Settings(mode=mode or "online", console="off", silent=True),
        )
    except wandb.Error as error:
        if not has_files:
            # With these files the folder would not be empty, and a repeated command refuse it.
            shutil.rmtree(directory / FOLDER, ignore_errors=True)
        raise ConfigError(
            f"{option('report_to', 'wandb')}: {error}. Check WANDB_API_KEY and the network, or set "
            "WANDB_MODE=offline."
        ) from error
    return WandbTracker(run)


class WandbTracker(Tracker):
    """A run of wandb."""

    def __init__(self, run: Any) -> None:
        super().__init__()
        self._run = run

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Send metrics by name, of `step` or as means of the steps up to it."""
        self._run.log(dict(values), step=step)

    def close(self, *, failed: bool) -> None:
        """End the run of wandb; `failed` is whether an error ended the training."""
        self._run.finish(exit_code=int(failed))

"""Run a training of which everything is decided and built, and save the model.

Every command that trains comes through `run_training`, the only place that makes a `Trainer`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from bertsmith.model.trainable import TrainableModel
from bertsmith.training.best_weights import BestWeights
from bertsmith.training.checkpoint import Checkpoint
from bertsmith.training.objective import Measure, Objective
from bertsmith.training.recorder import Callback
from bertsmith.training.run_config import RunConfig
from bertsmith.training.run_folder import RunFolder
from bertsmith.training.trainer import Summary, Trainer


@dataclass(frozen=True)
class TrainingRun:
    """A run of which everything is decided and built."""

    model: TrainableModel
    """Initial weights, or those of `checkpoint`."""
    objective: Objective[Any, Any]
    config: RunConfig
    _: KW_ONLY
    save: Callable[[Path], None]
    """Writes the model folder."""
    facts: Mapping[str, Any]
    """Entries of `run.json`."""
    report_to: str | None = None
    """Name of a tracker that gets the figures, too."""
    measure: Measure | None = None
    """Gives further figures of evaluations."""


@dataclass(frozen=True)
class Trained:
    """The outcome of a run."""

    summary: Summary
    best: BestWeights | None
    is_stop_requested: bool
    """Whether the user asked to stop after the last step had begun, so the run is complete."""


def run_training(
    run: TrainingRun,
    folder: RunFolder,
    *,
    resume: bool,
    checkpoint: Checkpoint | None,
    callbacks: Sequence[Callback],
    resume_command: str,
) -> Trained:
    """Train to the end and save the model.

    With `resume`, the run goes on from `checkpoint`, or begins anew without one; a run that is
    trained already is not trained again.

    Raises:
        ConfigError: the run to resume has another configuration.
        TrainingError, InputError, Interrupted: see `Trainer.run`.
    """
    trainer = Trainer(
        run.model,
        run.objective,
        folder,
        run.config,
        save=run.save,
        callbacks=callbacks,
        resume_command=resume_command,
        report_to=run.report_to,
        measure=run.measure,
    )
    if not resume:
        trainer.begin(run.facts)
        summary = trainer.run()
    elif "summary" in folder.read_run():
        summary = trainer.recall()
    else:
        trainer.resume(checkpoint)
        summary = trainer.run()
    return Trained(summary, trainer.best, trainer.is_stop_requested)

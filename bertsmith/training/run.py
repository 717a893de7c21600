"""A run on one page: `Run.run` from top to bottom.

Every command that trains comes through here, the only place that makes a `Trainer`. A kind of run
is a subclass, which states what differs: what it checks, what it builds, and what its result is.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from bertsmith.errors import Interrupted
from bertsmith.model.trainable import TrainableModel
from bertsmith.system.compute import Compute
from bertsmith.training.best_weights import BestWeights
from bertsmith.training.checkpoint import Checkpoint, newest_checkpoint
from bertsmith.training.curves import draw_curves
from bertsmith.training.journal import read_journal
from bertsmith.training.machine import Machine, computing_on
from bertsmith.training.model_card import write_card
from bertsmith.training.objective import Measure, Objective
from bertsmith.training.recorder import Callback
from bertsmith.training.run_config import RunConfig
from bertsmith.training.run_folder import RunFolder
from bertsmith.training.trainer import Summary, Trainer

Resolved = TypeVar("Resolved")
Result = TypeVar("Result")


@dataclass(frozen=True)
class BuiltRun:
    """A run that is ready to train."""

    model: TrainableModel
    """Initial weights, or those of `checkpoint`; on the run's device."""
    objective: Objective[Any, Any]
    config: RunConfig
    save: Callable[[Path], None]
    """Writes the model folder."""
    facts: Mapping[str, Any]
    """Entries of `run.json`."""
    checkpoint: Checkpoint | None
    """The checkpoint to go on from; None for a run that begins."""


@dataclass(frozen=True)
class Trained:
    """The outcome of training."""

    summary: Summary
    best: BestWeights | None
    is_stop_requested: bool
    """Whether the user asked to stop after the last step had begun, so the training is complete."""


class Run(ABC, Generic[Resolved, Result]):
    """One run in its folder. `Resolved` is what is decided and loaded before anything is written.

    Args:
        resume: go on from the newest checkpoint, or begin anew without one; a run that is trained
            already is not trained again.
        callbacks: see every journal entry, and may end the run.
        resume_command: what the user types to continue an interrupted run.
    """

    is_held_while_resolved = True
    """Whether the folder is held while the run is resolved, or only from then on."""
    measure: Measure | None = None
    """Gives further figures of evaluations."""

    def __init__(
        self,
        out: Path,
        compute: Compute,
        *,
        resume: bool,
        callbacks: Sequence[Callback],
        resume_command: str,
    ) -> None:
        self.folder = RunFolder(out)
        self.compute = compute
        self.resume = resume
        self.callbacks = callbacks
        self.resume_command = resume_command

    def run(self) -> Result:
        """Run from the first check to the result.

        Raises:
            BertsmithError: settings, inputs or folder do not allow it (nothing was written), or the
                run had to stop.
            Interrupted: the user asked to stop.
        """
        self.check()
        with ExitStack() as stack:
            if self.is_held_while_resolved:
                stack.enter_context(self.hold())
            # A resumed run computes as it did before.
            before = self.folder if self.resume else None
            machine = stack.enter_context(computing_on(self.compute, before))
            resolved = self.resolve(machine)
            if not self.is_held_while_resolved:
                stack.enter_context(self.hold())
            built = self.build(resolved, machine)
            trainer = self._make_trainer(built)
            if not self.resume:
                trainer.begin(built.facts)
                summary = trainer.run()
            elif "summary" in self.folder.read_run():
                summary = trainer.recall()
            else:
                trainer.resume(built.checkpoint)
                summary = trainer.run()
            trained = Trained(summary, trainer.best, trainer.is_stop_requested)
            self.write_beside_model()
            if trained.is_stop_requested and (state := self.state_before_result()):
                raise Interrupted(
                    f"{self.folder.path}: {state}. Continue with: {self.resume_command}"
                )
            return self.build_result(resolved, trained)

    @abstractmethod
    def check(self) -> None:
        """Refuse settings that cannot be met, and a folder that must not be written.

        It is asked again when the folder is held, as others may have worked there.

        Raises:
            ConfigError: says what is wrong with which.
        """

    def hold(self) -> AbstractContextManager[object]:
        """Make the folder if need be, and keep other processes out of it."""
        return self.folder.held(self.check)

    @abstractmethod
    def resolve(self, machine: Machine) -> Resolved:
        """Read and check all input, and decide what the user left open; nothing is written.

        Raises:
            BertsmithError: settings or inputs do not allow the run.
        """

    @abstractmethod
    def build(self, resolved: Resolved, machine: Machine) -> BuiltRun:
        """Build the model, new or from the checkpoint to go on from, and all that trains it."""

    def newest_checkpoint(self) -> Checkpoint | None:
        """Read the checkpoint to go on from; None where the run begins.

        Raises:
            CheckpointError: it is damaged.
        """
        return newest_checkpoint(self.folder.checkpoints_dir) if self.resume else None

    def _make_trainer(self, built: BuiltRun) -> Trainer:
        return Trainer(
            built.model,
            built.objective,
            self.folder,
            built.config,
            save=built.save,
            callbacks=self.callbacks,
            resume_command=self.resume_command,
            report_to=self.compute.report_to,
            is_exact=self.compute.exact,
            measure=self.measure,
        )

    def write_beside_model(self) -> None:
        """Write the model card, then the curves, which complete a pre-training."""
        write_card(self.folder.path, self.folder.read_run())
        self.draw_curves()

    def draw_curves(self) -> None:
        entries = read_journal(self.folder.journal_path)
        draw_curves(entries, self.folder.curves_path, self.folder.read_run())

    def state_before_result(self) -> str:
        """Return in words where a stop after the last step ends the run; empty where it goes on."""
        return ""

    @abstractmethod
    def build_result(self, resolved: Resolved, trained: Trained) -> Result:
        """Return the result of the trained model, which is in the folder."""

"""A training run from its first check to its result: `Run.run`.

Every command that trains with gradient steps uses `Run`. Each kind of run, such as a pre-training
or a fine-tuning, is a subclass with its own checks, model, objective and result. An objective makes
batches and computes losses. To *resolve* means to decide every setting that the user left open.
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
from bertsmith.training.callback import Callback
from bertsmith.training.checkpoint import Checkpoint, newest_checkpoint
from bertsmith.training.curves import draw_curves
from bertsmith.training.journal import read_journal
from bertsmith.training.machine import Machine, computing_on
from bertsmith.training.model_card import write_card
from bertsmith.training.objective import Measure, Objective
from bertsmith.training.run_config import RunConfig
from bertsmith.training.run_folder import RunFolder
from bertsmith.training.trainer import Summary, Trainer
from bertsmith.training.write_errors import naming_the_run

Resolved = TypeVar("Resolved")
Result = TypeVar("Result")


@dataclass(frozen=True)
class BuiltRun:
    """A run that is ready to train."""

    model: TrainableModel
    """The model with its initial weights, or with those of `checkpoint`, on the run's device."""
    objective: Objective[Any, Any]
    config: RunConfig
    save: Callable[[Path], None]
    """Function that writes the model folder."""
    facts: Mapping[str, Any]
    """Entries of `run.json` besides those that every run has; see `Trainer.begin`."""
    checkpoint: Checkpoint | None
    """The checkpoint to resume from; None for a new run."""


@dataclass(frozen=True)
class Trained:
    """The outcome of training."""

    summary: Summary
    best: BestWeights | None
    is_stop_requested: bool
    """Whether the user asked to stop (by Ctrl-C) during the last step. Training is complete then,
    but the result is not."""


class Run(ABC, Generic[Resolved, Result]):
    """One run in its folder.

    The type `Resolved` has the settings and inputs that are decided and loaded before anything is
    written.

    Args:
        out: the folder of the run.
        compute: settings of device, precision and threads.
        resume: continue from the newest checkpoint, or from the beginning if there is none; a run
            that is trained already is not trained again.
        callbacks: receive every journal entry, and may end the run.
        resume_command: the command line that resumes an interrupted run.
    """

    is_locked_while_resolved = True
    """Whether the folder is locked before the run is resolved, or only when the run can begin.
    Locking makes the folder, so a kind of run may wait until its settings and inputs are checked.
    """
    measure: Measure | None = None
    """Function that computes further metrics of evaluations; None for none."""

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
            BertsmithError: settings, inputs or folder do not allow the run (nothing was written),
                or training had to stop.
            Interrupted: the user asked to stop.
        """
        self.check()
        with ExitStack() as stack:
            if self.is_locked_while_resolved:
                stack.enter_context(self.hold())
            # A resumed run keeps the precision and the ways of computing that it began with.
            resumed = self.folder if self.resume else None
            machine = stack.enter_context(computing_on(self.compute, resumed))
            resolved = self.resolve(machine)
            built = self.build(resolved, machine)
            trainer = self._make_trainer(built)  # raises an error if a rank cannot take part
            if not self.is_locked_while_resolved:
                stack.enter_context(self.hold())
            stack.enter_context(naming_the_run(self.folder, self.resume_command))
            if not self.resume:
                trainer.begin(built.facts)
                summary = trainer.run()
            elif self.folder.is_trained:
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

        It is called again once the folder is locked, as another process may have written there.

        Raises:
            ConfigError: names the setting or the folder, and says what is wrong.
        """

    def hold(self) -> AbstractContextManager[object]:
        """Make the folder if it is missing, and lock it."""
        return self.folder.held(self.check)

    @abstractmethod
    def resolve(self, machine: Machine) -> Resolved:
        """Read and check all input, and decide the settings that the user left open; write nothing.

        Raises:
            BertsmithError: settings or inputs do not allow the run.
        """

    @abstractmethod
    def build(self, resolved: Resolved, machine: Machine) -> BuiltRun:
        """Build the model, new or from the checkpoint, and collect what the trainer needs."""

    def newest_checkpoint(self) -> Checkpoint | None:
        """Load the checkpoint to resume from; None if the run begins.

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
        """Write the model card, then the curves.

        The curves come last, since their file shows that a pre-training is complete.
        """
        write_card(self.folder.path, self.folder.read_run())
        self.draw_curves()

    def draw_curves(self) -> None:
        entries = read_journal(self.folder.journal_path)
        draw_curves(entries, self.folder.curves_path, self.folder.read_run())

    def state_before_result(self) -> str:
        """Describe a run that the user stopped during its last step; empty to build its result.

        A run with `measure` is one of several runs of a comparison: a stop must end them all,
        although this run is complete.
        """
        return "" if self.measure is None else "trained, then stopped"

    @abstractmethod
    def build_result(self, resolved: Resolved, trained: Trained) -> Result:
        """Build the result from the trained model, which is in the folder."""

"""The common base of the training runs of models beside BERT, on a corpus or on pairs of texts.

Such a model is called a system. A run first resolves its settings: it decides those that the user
left open. Then it builds the model and the objective, which makes the batches and computes losses.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from bertsmith.errors import ConfigError, option
from bertsmith.model.trainable import TrainableModel
from bertsmith.pretraining.run import flat_summary
from bertsmith.pretraining.step_timer import seconds_per_row
from bertsmith.training.budget import MAX_EVAL_ROWS, MAX_TIMES, STEP_COST, EvaluationPlan
from bertsmith.training.callback import Callback
from bertsmith.training.checkpoint import Checkpoint
from bertsmith.training.findings import diagnose
from bertsmith.training.journal import read_journal
from bertsmith.training.loop_config import LoopConfig
from bertsmith.training.machine import Machine
from bertsmith.training.objective import Measure, Objective
from bertsmith.training.run import BuiltRun, Run, Trained
from bertsmith.training.run_folder import CONFIG
from bertsmith.training.settings import OptimSettings, TrainingSettings

TRIAL_SECONDS = 0.3
"""Seconds for which rows are timed to plan the evaluations of a run in minutes."""
MAX_TRIAL_SHARE = 1 / 200
"""Largest share of the run's time for this timing."""

DataT = TypeVar("DataT")
"""The data of a run, such as `SplitCorpus`."""


@dataclass(frozen=True, kw_only=True)
class SystemConfig(LoopConfig):
    """The settings of a run that the training loop reads, and the model's config."""

    system: str
    """The name of the kind of model, such as "gpt", or "translate" for pairs of texts."""
    model: Any
    """The config of the model, such as `GptConfig`."""


def loop_settings(
    training: TrainingSettings, optim: OptimSettings, default_rate: float, machine: Machine
) -> dict[str, Any]:
    """Return the fields of a `SystemConfig` that follow from these settings.

    Args:
        default_rate: the learning rate to use if the user has set none.
        machine: the hardware of the run, and the number of shares into which each step is divided
            among processes.

    Raises:
        ConfigError: there are more ranks (machines or GPUs) than rows in a step.
    """
    machine.check_batch_size(training.batch_size)
    return {
        "steps": training.steps,
        "minutes": training.minutes,
        "batch_size": training.batch_size,
        "seed": training.seed,
        "optim": replace(optim, learning_rate=optim.learning_rate or default_rate),
        "precision": machine.precision,
        # Without --eval-rows, `SystemRun.resolve` replaces this plan by one for the run's length.
        "evaluations": EvaluationPlan(
            rows=training.eval_rows or MAX_EVAL_ROWS,
            times=MAX_TIMES,
            is_limited=training.eval_rows is None,
        ),
        "num_shares": machine.num_shares,
        "eval_every": training.eval_every,
        "checkpoint_every": training.checkpoint_every,
        "keep": training.keep,
    }


class SystemObjective(Objective[Any, Any], Protocol):
    """An objective whose numbers of rows can be chosen."""

    batch_size: int
    """Number of rows in a step."""

    @property
    def num_held_out(self) -> int:
        """The number of rows that can be evaluated."""
        ...

    def resized(self, batch_size: int, eval_rows: int) -> Self:
        """Return a copy with other numbers of rows in a step and in an evaluation."""
        ...

    def held_out_batches(self, model: Any) -> Any:
        """Yield the eval batches, always the same, on the model's device."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """Return numbers about the data, such as its documents and tokens, for the summary."""
        ...


@dataclass(frozen=True)
class ResolvedSystem(Generic[DataT]):
    """The parts of a run whose settings are all decided, before anything is written."""

    data: DataT
    config: SystemConfig
    objective: SystemObjective
    checkpoint: Checkpoint | None
    facts: Mapping[str, Any]
    """Numbers about the data, from `SystemObjective.facts`."""


class SystemRun(Run[ResolvedSystem[DataT], dict[str, Any]], Generic[DataT]):
    """The training run of a system, in its folder.

    Args:
        out: the folder of the run, in which the model will be.
        training: the settings of length, evaluation and hardware.
        resume: whether to continue the run in `out`.
        overwrite: whether a new run may replace what is in `out`.
        callbacks: objects that are told of each step and evaluation, such as a display.
        resume_command: what the user does to resume the run, for messages.
        measure: computes further metrics at each evaluation.
    """

    def __init__(
        self,
        out: Path,
        training: TrainingSettings,
        *,
        resume: bool,
        overwrite: bool,
        callbacks: Sequence[Callback],
        resume_command: str,
        measure: Measure | None = None,
    ) -> None:
        super().__init__(
            out, training, resume=resume, callbacks=callbacks, resume_command=resume_command
        )
        self.training = training
        self.overwrite = overwrite
        self.measure = measure

    @abstractmethod
    def open_data(self) -> DataT:
        """Open and check the data."""

    @abstractmethod
    def resolve_config(self, data: DataT, machine: Machine) -> SystemConfig:
        """Decide the settings that the user left open, except the plan of the evaluations."""

    @abstractmethod
    def build_objective(self, config: SystemConfig, data: DataT) -> SystemObjective:
        """Build the objective over the data."""

    @abstractmethod
    def build_model(self, config: SystemConfig, data: DataT) -> TrainableModel:
        """Build the model to begin with, fp32, on the CPU."""

    @abstractmethod
    def build_run(
        self, resolved: ResolvedSystem[DataT], machine: Machine, notes: tuple[str, ...]
    ) -> BuiltRun:
        """Build the model, new or from the checkpoint, and everything that trains it.

        Args:
            notes: sentences about how the run computes, which are shown and stored.
        """

    def resolve(self, machine: Machine) -> ResolvedSystem[DataT]:
        """Open the data and the newest checkpoint, and decide all settings."""
        checkpoint = self.newest_checkpoint()
        previous = self.folder.read_run()[CONFIG] if self.resume else None
        data = self.open_data()
        config = self.resolve_config(data, machine)
        objective = self.build_objective(config, data)
        if self.training.eval_rows is None:
            if previous is not None and "evaluations" in previous:
                # The plan with which the run began: timing the rows again would give another.
                evaluations = EvaluationPlan.restore(previous["evaluations"])
            else:
                evaluations = self._plan_evaluations(config, data, machine)
            config = replace(config, evaluations=evaluations)
        # The objective was built before the number of eval rows was decided.
        objective = objective.resized(config.batch_size, config.evaluations.rows)
        return ResolvedSystem(data, config, objective, checkpoint, objective.facts())

    def build_timed_objective(self, config: SystemConfig, data: DataT) -> SystemObjective:
        """Build the objective whose eval rows are timed before a run in minutes."""
        return self.build_objective(config, data)

    def _plan_evaluations(
        self, config: SystemConfig, data: DataT, machine: Machine
    ) -> EvaluationPlan:
        """Plan the evaluations by the steps of the run, or by timing a few rows.

        Raises:
            ConfigError: not a single step fits into the run's minutes.
        """
        if config.steps is not None:
            return EvaluationPlan.of_steps(config.steps, config.batch_size)
        assert config.minutes is not None
        seconds = 60 * config.minutes
        model = self.build_model(config, data).to(machine.device)
        objective = self.build_timed_objective(config, data)
        trial_seconds = min(TRIAL_SECONDS, MAX_TRIAL_SHARE * seconds)
        row_seconds = seconds_per_row(objective, model, machine, trial_seconds)
        # `row_seconds` evaluates a row; training on it takes `STEP_COST` times as long.
        step_seconds = STEP_COST * config.batch_size * row_seconds
        if step_seconds > 2 * seconds:  # twice, since the times are estimates
            raise ConfigError(
                f"{option('training.minutes')}: found {config.minutes:g}; one step of "
                f"{config.batch_size} rows takes about {step_seconds / 60:.2g} minutes here, so "
                f"none fits in. Give more minutes, fewer rows ({option('batch_size')}) or a "
                "smaller model."
            )
        return EvaluationPlan.of_seconds(seconds, row_seconds)

    def build(self, resolved: ResolvedSystem[DataT], machine: Machine) -> BuiltRun:
        config = resolved.config
        num_held_out = resolved.objective.num_held_out
        note = config.evaluations.describe(num_held_out, config.steps, config.eval_every)
        return self.build_run(resolved, machine, (note,) if note else ())

    def build_result(self, resolved: ResolvedSystem[DataT], trained: Trained) -> dict[str, Any]:
        """Return the summary with the numbers about the data, and the remarks of `diagnose`."""
        journal = read_journal(self.folder.journal_path)
        findings = diagnose(journal, self.folder.read_run())
        result = {"out": str(self.folder.path), **flat_summary(trained.summary), **resolved.facts}
        return {**result, "findings": list(map(asdict, findings))}

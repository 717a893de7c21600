"""Training of a system beside BERT from end to end: a corpus goes in, a model folder comes out."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from bertsmith.config import to_jsonable
from bertsmith.data.shards import Corpus
from bertsmith.data.unknown_tokens import tell_unknown
from bertsmith.errors import ConfigError, option
from bertsmith.lineage.corpus_objective import CorpusObjective
from bertsmith.lineage.settings import SystemSettings
from bertsmith.lineage.system import SYSTEMS, System
from bertsmith.model.trainable import TrainableModel
from bertsmith.pretraining.micro_batch import rows_of_micro_batch
from bertsmith.pretraining.resolve import LEARNING_RATES
from bertsmith.pretraining.run import flat_summary
from bertsmith.pretraining.step_timer import seconds_per_row
from bertsmith.system.compute import FREE
from bertsmith.system.matrix_products import Precision
from bertsmith.system.paths import check_outside
from bertsmith.system.torch_modes import drawing_from
from bertsmith.training.best_weights import BestSettings
from bertsmith.training.budget import (
    MAX_EVAL_ROWS,
    MAX_TIMES,
    STEP_COST,
    Budget,
    EvaluationPlan,
)
from bertsmith.training.checkpoint import Checkpoint
from bertsmith.training.findings import diagnose
from bertsmith.training.journal import read_journal
from bertsmith.training.machine import Machine
from bertsmith.training.recorder import Callback
from bertsmith.training.run import BuiltRun, Run, Trained
from bertsmith.training.run_folder import CONFIG
from bertsmith.training.settings import OptimSettings, TrainingSettings

TRIAL_SECONDS = 0.3


@dataclass(frozen=True)
class SystemJob:
    """The settings of a run, except for its output folder."""

    system: str
    corpus: Path
    model: SystemSettings
    training: TrainingSettings = field(default_factory=TrainingSettings)
    optim: OptimSettings = field(default_factory=OptimSettings)


@dataclass(frozen=True)
class SystemConfig:
    """All settings of a run, which a resumed run must share but for those that are `FREE`.

    The loop reads it as a `RunConfig`.
    """

    corpus: Path = field(metadata=FREE)
    system: str
    preset: str
    model: Any
    max_length: int
    steps: int | None
    minutes: float | None
    batch_size: int
    micro_batch_size: int = field(metadata=FREE)
    seed: int
    optim: OptimSettings
    precision: Precision
    evaluations: EvaluationPlan
    num_processes: int = field(metadata=FREE)
    eval_every: int | None = field(metadata=FREE)
    checkpoint_every: int | None = field(metadata=FREE)
    keep: int = field(metadata=FREE)
    notes: tuple[str, ...] = field(default=(), metadata=FREE)

    @property
    def budget(self) -> Budget:
        return Budget(self.steps, None if self.minutes is None else 60 * self.minutes)

    @property
    def best(self) -> BestSettings | None:
        """None: the last weights are saved, not the best ones."""
        return None


@dataclass(frozen=True)
class ResolvedSystem:
    """A run whose settings are all decided, before anything is written."""

    config: SystemConfig
    corpus: Corpus
    objective: CorpusObjective[Any, Any]
    checkpoint: Checkpoint | None
    facts: Mapping[str, Any]


class SystemPretraining(Run[ResolvedSystem, dict[str, Any]]):
    """Training of one system on a corpus, with the arguments of `pretrain_system`."""

    def __init__(
        self,
        job: SystemJob,
        out: Path,
        *,
        resume: bool,
        overwrite: bool,
        callbacks: Sequence[Callback],
        resume_command: str,
    ) -> None:
        super().__init__(
            out, job.training, resume=resume, callbacks=callbacks, resume_command=resume_command
        )
        self.job = job
        self.overwrite = overwrite
        self.system: System = SYSTEMS[job.system]

    def check(self) -> None:
        """Refuse settings without a length, and a folder that must not be written.

        Raises:
            ConfigError: as `RunFolder.check`; or the folder holds, or lies in, the corpus.
        """
        self.job.training.check_length()
        self.folder.check(resume=self.resume, overwrite=self.overwrite)
        check_outside(self.folder.path, self.job.corpus)

    def resolve(self, machine: Machine) -> ResolvedSystem:
        checkpoint = self.newest_checkpoint()
        previous = self.folder.read_run()[CONFIG] if self.resume else None
        corpus = Corpus.open(self.job.corpus)
        held_out = Corpus.open(self.job.corpus, "held_out")
        config = self._resolve_config(corpus, machine)
        objective = self._build_objective(config, corpus, held_out)
        if previous is not None and "evaluations" in previous:
            if config.evaluations.is_limited:
                config = replace(config, evaluations=EvaluationPlan(**previous["evaluations"]))
        elif self.job.training.eval_rows is None:
            config = replace(config, evaluations=self._plan(config, objective, machine))
        objective = objective.resized(config.batch_size, config.evaluations.rows)
        return ResolvedSystem(config, corpus, objective, checkpoint, objective.facts())

    def _resolve_config(self, corpus: Corpus, machine: Machine) -> SystemConfig:
        job, training, optim = self.job, self.job.training, self.job.optim
        machine.check_batch_size(training.batch_size)
        rate = optim.learning_rate or LEARNING_RATES[job.model.preset]
        return SystemConfig(
            corpus=job.corpus,
            system=job.system,
            preset=job.model.preset,
            model=self.system.new_config(job.model, corpus.tokenizer()),
            max_length=job.model.max_length,
            steps=training.steps,
            minutes=training.minutes,
            batch_size=training.batch_size,
            micro_batch_size=rows_of_micro_batch(training, job.model.max_length, None, machine),
            seed=training.seed,
            optim=replace(optim, learning_rate=rate),
            precision=machine.precision,
            evaluations=EvaluationPlan(
                training.eval_rows or MAX_EVAL_ROWS, MAX_TIMES, training.eval_rows is None
            ),
            num_processes=machine.num_processes,
            eval_every=training.eval_every,
            checkpoint_every=training.checkpoint_every,
            keep=training.keep,
        )

    def _build_objective(
        self, config: SystemConfig, corpus: Corpus, held_out: Corpus
    ) -> CorpusObjective[Any, Any]:
        return self.system.objective(
            corpus,
            held_out,
            config.max_length,
            batch_size=config.batch_size,
            micro_batch_size=config.micro_batch_size,
            seed=config.seed,
            eval_rows=config.evaluations.rows,
        )

    def _plan(
        self, config: SystemConfig, objective: CorpusObjective[Any, Any], machine: Machine
    ) -> EvaluationPlan:
        """Plan the evaluations by the steps of the run, or by timing a few rows.

        Raises:
            ConfigError: not a single step fits into the run's minutes.
        """
        if config.steps is not None:
            return EvaluationPlan.of_steps(config.steps, config.batch_size)
        assert config.minutes is not None
        seconds = 60 * config.minutes
        model = self._new_model(config).to(machine.device)
        row = seconds_per_row(objective, model, machine, min(TRIAL_SECONDS, seconds / 200))
        step_seconds = STEP_COST * config.batch_size * row
        if step_seconds > 2 * seconds:
            raise ConfigError(
                f"{option('training.minutes')}: found {config.minutes:g}; one step of "
                f"{config.batch_size} rows takes about {step_seconds / 60:.2g} minutes here, so "
                f"none fits in. Give more minutes, fewer rows ({option('batch_size')}) or a "
                "smaller model."
            )
        return EvaluationPlan.of_seconds(seconds, row)

    def _new_model(self, config: SystemConfig) -> TrainableModel:
        with drawing_from(config.seed):
            return self.system.build(config.model)

    def build(self, resolved: ResolvedSystem, machine: Machine) -> BuiltRun:
        config, checkpoint = resolved.config, resolved.checkpoint
        load, new = self.system.load, self._new_model
        model = new(config) if checkpoint is None else load(checkpoint.path)
        if not self.resume:
            tell_unknown(resolved.facts["unknown_rate"], self.job.corpus)
        tokenizer = resolved.corpus.tokenizer()
        tokenizer.model_max_length = self.job.model.max_position_embeddings
        notes = [str(config.evaluations)] if str(config.evaluations) else []
        return BuiltRun(
            model.to(machine.device),
            resolved.objective,
            replace(config, notes=tuple(notes)),
            partial(_save, self.system, model, tokenizer),
            facts={
                "command": self.system.command,
                "settings": to_jsonable(self.job),
                "data": resolved.facts,
            },
            checkpoint=checkpoint,
        )

    def build_result(self, resolved: ResolvedSystem, trained: Trained) -> dict[str, Any]:
        """Return the summary with the facts about the data and the findings from the journal."""
        entries, run = read_journal(self.folder.journal_path), self.folder.read_run()
        result = {"out": str(self.folder.path), **flat_summary(trained.summary), **resolved.facts}
        return {**result, "findings": list(map(asdict, diagnose(entries, run)))}


def _save(system: System, model: TrainableModel, tokenizer: Any, directory: Path) -> None:
    system.save(model, directory, tokenizer)


def pretrain_system(
    job: SystemJob,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
    resume_command: str = "the same call with resume=True",
) -> dict[str, Any]:
    """Run a job and give its summary with the facts about its data.

    Raises:
        BertsmithError: settings, corpus or folder do not allow it (nothing was written), or the
            run had to stop.
        Interrupted: the user asked to stop.
    """
    return SystemPretraining(
        job,
        out,
        resume=resume,
        overwrite=overwrite,
        callbacks=callbacks,
        resume_command=resume_command,
    ).run()

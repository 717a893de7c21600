"""Pre-training of a model beside BERT (a system), such as a GPT, on a corpus."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from bertsmith.config import to_jsonable
from bertsmith.data.corpus import Corpus
from bertsmith.data.unknown_tokens import warn_unknown
from bertsmith.errors import SettingError
from bertsmith.lineage.settings import SystemSettings
from bertsmith.lineage.system import SYSTEMS, System
from bertsmith.lineage.system_run import (
    ResolvedSystem,
    SystemConfig,
    SystemObjective,
    SystemRun,
    loop_settings,
)
from bertsmith.model.trainable import TrainableModel
from bertsmith.pretraining.micro_batch import rows_of_micro_batch
from bertsmith.pretraining.resolve import LEARNING_RATES
from bertsmith.system.compute import FREE
from bertsmith.system.paths import check_outside
from bertsmith.system.torch_modes import drawing_from
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.callback import Callback
from bertsmith.training.machine import Machine
from bertsmith.training.objective import Measure
from bertsmith.training.run import BuiltRun
from bertsmith.training.settings import OptimSettings, TrainingSettings


@dataclass(frozen=True)
class SystemJob:
    """The settings of a run, except for its output folder."""

    system: str
    """The last word of the command, such as "gpt"."""
    corpus: Path
    model: SystemSettings
    training: TrainingSettings = field(default_factory=TrainingSettings)
    optim: OptimSettings = field(default_factory=OptimSettings)

    def with_training(self, **changes: Any) -> Self:
        return replace(self, training=replace(self.training, **changes))


@dataclass(frozen=True, kw_only=True)
class CorpusRunConfig(SystemConfig):
    """All settings of a run on a corpus, with none left open."""

    corpus: Path = field(metadata=FREE)  # its path may change before a run is resumed
    preset: str
    max_length: int


@dataclass(frozen=True)
class SplitCorpus:
    """The two splits of a corpus."""

    train: Corpus
    held_out: Corpus


class SystemPretraining(SystemRun[SplitCorpus]):
    """Training of one system on a corpus, with the arguments of `pretrain_system`."""

    def __init__(self, job: SystemJob, out: Path, **options: Any) -> None:
        super().__init__(out, job.training, **options)
        self.job = job
        self.system: System = SYSTEMS[job.system]

    def check(self) -> None:
        """Check that the settings give the run a length, and that the folder may be written.

        Raises:
            ConfigError: the run has no length; `RunFolder.check` refuses the folder; or the folder
                is that of the corpus, or inside it.
        """
        self.training.check_length()
        self.folder.check(resume=self.resume, overwrite=self.overwrite)
        check_outside(self.folder.path, self.job.corpus)

    def open_data(self) -> SplitCorpus:
        corpus = self.job.corpus
        return SplitCorpus(Corpus.open(corpus), Corpus.open(corpus, "held_out"))

    def resolve_config(self, data: SplitCorpus, machine: Machine) -> CorpusRunConfig:
        """Decide the settings that the user left open, except the plan of the evaluations.

        Raises:
            SettingError: the optimizer cannot train this system.
        """
        job, model = self.job, self.job.model
        if job.optim.optimizer not in self.system.optimizers:
            raise SettingError(
                "optim.optimizer", job.optim.optimizer, "adamw for a model of recurrent layers"
            )
        return CorpusRunConfig(
            corpus=job.corpus,
            system=job.system,
            preset=model.preset,
            model=self.system.new_config(model, data.train.tokenizer()),
            max_length=model.max_length,
            # None: the sizes of the model set no limit on the rows of a micro-batch.
            micro_batch_size=rows_of_micro_batch(self.training, model.max_length, None, machine),
            **loop_settings(self.training, job.optim, LEARNING_RATES[model.preset], machine),
        )

    def build_objective(self, config: SystemConfig, data: SplitCorpus) -> SystemObjective:
        return self.system.objective(
            data.train,
            data.held_out,
            self.job.model.max_length,
            batch_size=config.batch_size,
            micro_batch_size=config.micro_batch_size,
            seed=config.seed,
            eval_rows=config.evaluations.rows,
        )

    def build_timed_objective(self, config: SystemConfig, data: SplitCorpus) -> SystemObjective:
        # Without eval text there is nothing to evaluate. Rows of the training text take as long.
        if data.held_out.num_documents == 0:
            data = replace(data, held_out=data.train)
        return self.build_objective(config, data)

    def build_model(self, config: SystemConfig, data: SplitCorpus) -> TrainableModel:
        with drawing_from(config.seed):  # the caller's random numbers do not change
            model = self.system.build(config.model)
        self.system.set_tokenizer(model, data.train.tokenizer())
        return model

    def build_run(
        self, resolved: ResolvedSystem[SplitCorpus], machine: Machine, notes: tuple[str, ...]
    ) -> BuiltRun:
        config, data, checkpoint = resolved.config, resolved.data, resolved.checkpoint
        if checkpoint is None:
            model = self.build_model(config, data)
        else:
            model = self.system.load(checkpoint.path)
        if not self.resume:  # a run that goes on has warned when it began
            warn_unknown(resolved.facts["unknown_rate"], self.job.corpus)
        tokenizer = data.train.tokenizer()  # loaded anew, so this changes no other
        tokenizer.model_max_length = self.job.model.longest  # saved with it
        return BuiltRun(
            model.to(machine.device),
            resolved.objective,
            replace(config, notes=notes),
            partial(_save, self.system, model, tokenizer),
            facts={  # entries of the run's run.json
                "command": self.system.command,
                "settings": to_jsonable(self.job),
                "data": resolved.facts,
            },
            checkpoint=checkpoint,
        )


def _save(system: System, model: TrainableModel, tokenizer: Tokenizer, directory: Path) -> None:
    """Save a model; `partial` gives all arguments except the last, which the loop gives."""
    system.save(model, directory, tokenizer)


def pretrain_system(
    job: SystemJob,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
    resume_command: str = "the same call with resume=True",
    measure: Measure | None = None,
) -> dict[str, Any]:
    """Run a job, and return its summary with numbers about its data.

    Args:
        out: the folder of the run, in which the model will be.
        resume: whether to continue the run in `out`.
        overwrite: whether a new run may replace what is in `out`.
        callbacks: objects that are told of each step and evaluation, such as a display.
        resume_command: what the user does to resume the run, for messages.
        measure: computes further metrics at each evaluation; only runs of a comparison have it.

    Raises:
        BertsmithError: settings, corpus or folder do not allow it (nothing was written), or the
            run had to stop.
        Interrupted: the user asked to stop; with `measure` also if this run is complete, so that
            the comparison stops.
    """
    return SystemPretraining(
        job,
        out,
        resume=resume,
        overwrite=overwrite,
        callbacks=callbacks,
        resume_command=resume_command,
        measure=measure,
    ).run()

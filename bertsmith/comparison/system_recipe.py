"""A recipe of a comparison for a system beside BERT: a job of `bertsmith pretrain gpt` or another.

In a comparison file such a recipe has `system = "gpt"` beside its tables [model], [training] and
[optim].
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bertsmith.comparison.budget import ComparisonBudget, RunLength, count_tokens, steps_for
from bertsmith.comparison.recipe import Recipe
from bertsmith.config import from_mapping, to_jsonable
from bertsmith.errors import ConfigError, option
from bertsmith.lineage.pretraining_run import (
    SplitCorpus,
    SystemJob,
    SystemPretraining,
    pretrain_system,
)
from bertsmith.lineage.system import SYSTEMS
from bertsmith.lineage.system_run import TRIAL_SECONDS, ResolvedSystem
from bertsmith.model.trainable import TrainableModel
from bertsmith.pretraining.step_timer import seconds_per_row
from bertsmith.training.budget import EVALUATION_LIMIT, STEP_COST
from bertsmith.training.callback import Callback
from bertsmith.training.machine import computing_on
from bertsmith.training.objective import Measure
from bertsmith.training.run_config import build_identity, check_same, same_fields
from bertsmith.training.run_folder import CONFIG, RunFolder
from bertsmith.training.settings import OptimSettings, TrainingSettings


@dataclass(frozen=True)
class SystemRecipe(Recipe[SystemJob]):
    """A named job of training a system beside BERT."""

    @property
    def max_length(self) -> int:
        return self.job.model.max_length

    def supports_task(self, task: str) -> bool:
        # 'bertsmith finetune classify' trains every system; none of them learns another task.
        return task == "classify"

    def training_length(self, budget: ComparisonBudget) -> RunLength:
        # The job is resolved for every budget, even if the result is not needed: so an impossible
        # model size is an error before the first run.
        objective = self.with_training(steps=1, minutes=None)._resolve().objective
        length = budget.known_length()
        if length is not None:
            return length
        if budget.unit == "flops":
            raise ConfigError(
                "floating-point operations are counted only for BERT and its relatives. Give "
                f"{option('minutes')}, {option('tokens')} or {option('steps')}."
            )
        return {
            "minutes": None,
            "steps": steps_for(budget.amount, partial(count_tokens, objective)),
        }

    def compared_settings(self) -> Mapping[str, Any]:
        job = self.job
        model = to_jsonable(job.model)
        max_length = model.pop("max_length")
        return {
            "model": {"family": job.system, **model},
            "pretraining": {"max_length": max_length},
            "training": {"batch_size": job.training.batch_size, **self.compute},
            "optim": same_fields(self._resolve().config.optim),
        }

    def estimate_seconds(self) -> float:
        training = self.training
        if training.minutes is not None:
            return 60 * training.minutes
        assert training.steps is not None
        with computing_on(training) as machine:
            run = self._run(Path(), resume=False)  # the folder is not used: nothing is written
            data = run.open_data()
            config = run.resolve_config(data, machine)
            model = run.build_model(config, data).to(machine.device)
            objective = run.build_objective(config, data)
            # The seconds of an evaluation of a row, without gradients. Training on a row takes as
            # long as `STEP_COST` evaluations of it.
            row_seconds = seconds_per_row(objective, model, machine, TRIAL_SECONDS)
        num_rows = training.steps * training.batch_size
        training_seconds = num_rows * STEP_COST * row_seconds
        return (1 + EVALUATION_LIMIT) * training_seconds  # the second term is for evaluations

    def check_earlier(self, folder: RunFolder) -> None:
        resolved = self._resolve(folder)
        # The settings that a resumed run must share, and facts about the data.
        identity = build_identity(resolved.config, resolved.objective.identity())
        check_same(folder.path, folder.read_run()[CONFIG], identity)

    def train(
        self,
        folder: RunFolder,
        callbacks: Sequence[Callback],
        resume_command: str,
        measure: Measure,
    ) -> None:
        pretrain_system(
            self.job,
            folder.path,
            resume=folder.run_path.exists(),
            callbacks=callbacks,
            resume_command=resume_command,
            measure=measure,
        )

    def load(self, directory: Path) -> TrainableModel:
        return SYSTEMS[self.job.system].load(directory)

    def _resolve(self, earlier: RunFolder | None = None) -> ResolvedSystem[SplitCorpus]:
        """Decide what the settings leave open, as a run does that is new or continues `earlier`."""
        out = Path() if earlier is None else earlier.path  # of a new run, the folder is not used
        with computing_on(self.training, earlier) as machine:
            return self._run(out, resume=earlier is not None).resolve(machine)

    def _run(self, out: Path, *, resume: bool) -> SystemPretraining:
        return SystemPretraining(
            self.job, out, resume=resume, overwrite=False, callbacks=(), resume_command=""
        )


def read_system_job(system: str, tables: Mapping[str, Any], source: str, corpus: Path) -> SystemJob:
    """Read the job of a system from the tables of a recipe.

    Raises:
        ConfigError: there is no such system, or a table or an entry is wrong.
    """
    if system not in SYSTEMS:
        raise ConfigError(
            f"{source}: system: found {system!r}; allowed are {', '.join(SYSTEMS)}. Leave it out "
            "for BERT and its relatives."
        )
    settings_types = {
        "model": SYSTEMS[system].settings,
        "training": TrainingSettings,
        "optim": OptimSettings,
    }
    if unknown := sorted(tables.keys() - settings_types.keys()):
        raise ConfigError(
            f"{source}: found '{unknown[0]}'; a {system} has the tables "
            f"{', '.join(settings_types)}. Leave it out."
        )
    settings: dict[str, Any] = {}
    for name, settings_type in settings_types.items():
        table = tables.get(name, {})
        if not isinstance(table, Mapping):
            raise ConfigError(f"{source}: {name}: found {table!r}; allowed is a table.")
        settings[name] = from_mapping(settings_type, table, f"{source}: {name}")
    return SystemJob(system, corpus, **settings)

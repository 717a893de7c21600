"""The definition of a pre-training run, its objective and its initial model.

Defaults are those of the model's size and family, or, with `from_`, those of the folder.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import log
from pathlib import Path
from typing import Any, cast

import torch

from bertsmith.data.shards import Corpus
from bertsmith.errors import ConfigError
from bertsmith.model.bert import BertModel
from bertsmith.model.config import PRESETS, BertConfig
from bertsmith.model.families import family_named
from bertsmith.model.family import Family
from bertsmith.model.model_folder import ModelFolder, read_folder
from bertsmith.model.sinusoidal_positions import initialize_sinusoidal
from bertsmith.pretraining.auto_size import Choice, choose_preset
from bertsmith.pretraining.from_checkpoint import stored_objective
from bertsmith.pretraining.model_settings import FIXED, ModelSettings
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.replaced_tokens import ReplacedTokens
from bertsmith.pretraining.settings import MIN_LENGTH, PairTask, PretrainingSettings
from bertsmith.pretraining.step_timer import Computing, seconds_per_row
from bertsmith.training.budget import MAX_ROWS, MAX_TIMES, STEP_COST, EvaluationPlan
from bertsmith.training.optim import OptimSettings
from bertsmith.training.trainer import TrainingSettings

LEARNING_RATES = {
    "tiny": 3e-3,
    "mini": 1.5e-3,
    "small": 7e-4,
    "medium": 4e-4,
    "base": 2e-4,
    "large": 1e-4,
}
"""Default learning rates: the larger the model, the smaller the steps it tolerates. With the rate
of tiny, mini learned nothing in 240 steps; with its own it had left the plateau after 800."""

CONTINUED_SHARE = 1 / 3
"""Default learning rate of a continued model, as a fraction of that from scratch. The higher the
rate is warmed up again, the more is learned of the new texts and forgotten of the old (Gupta et al.
2023, "Continual pre-training of large language models: how to (re)warm your model?"). A first trial
(tiny, 3 minutes of Wikipedia, 40 seconds of documentation) gave 2.178 bits per character of the
documentation and 2.420 of Wikipedia with the whole rate, 2.153 and 2.411 with a third."""


EVALUATIONS = "evaluations"
"""What `run.json` calls the plan of a run's evaluations."""

TRIAL_SECONDS = 0.3

LEARNING_STEPS = 100
"""Steps in which a model learns how frequent words are, and hardly more."""


@dataclass(frozen=True)
class PretrainJob:
    """The full definition of a run, except for its output folder."""

    corpus: Path
    model: ModelSettings = field(default_factory=ModelSettings)
    pretraining: PretrainingSettings = field(default_factory=PretrainingSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    optim: OptimSettings = field(default_factory=OptimSettings)
    from_: Path | None = None
    """Model to continue from, a folder or "org/name" on the hub; by default a new one."""

    def __post_init__(self) -> None:
        """Refuse a shape beside `from_`, which determines it."""
        for name in FIXED if self.from_ is not None else ():
            if (found := getattr(self.model, name)) is not None:
                raise ConfigError(
                    f"model.{name}: found {found!r} beside --from {self.from_}, which has its own. "
                    "Leave one of them out."
                )
        share = self.pretraining.generator_size
        if self.from_ is not None and share is not None:
            raise ConfigError(
                f"pretraining.generator_size: found {share} beside --from {self.from_}, whose "
                "generator has its own. Leave it out."
            )

    def with_preset(self, preset: Any) -> "PretrainJob":
        """Return a copy with a model of another size."""
        return replace(self, model=replace(self.model, preset=preset))

    @property
    def resolved(self) -> "PretrainJob":
        """The job with all defaults; a new model's size must be known."""
        job = self.prepared
        return job if self.from_ is not None else replace(job, optim=job.resolved_optim)

    @property
    def prepared(self) -> "PretrainJob":
        """The job with all defaults but a new model's learning rate.

        That rate depends on the size, which may yet have to be chosen.
        """
        if self.from_ is None:
            job = replace(self, model=self.model.resolved)
            return job.for_family(job.model.resolved_family)
        return self.going_on_from_folder(read_folder(self.from_))

    def going_on_from_folder(self, folder: ModelFolder) -> "PretrainJob":
        """Fill in defaults from a folder's model and pre-training."""
        config, learnt = folder.config, self.pretraining
        objective = learnt.objective or stored_objective(folder)
        job = replace(self, pretraining=replace(learnt, objective=objective))
        return job.going_on_from(config).for_family(family_named(config.model_type))

    def for_family(self, family: Family) -> "PretrainJob":
        """Fill in the family's objective and pair task.

        Raises:
            ConfigError: a model of the family has no head for a given setting.
        """
        learnt = self.pretraining
        if learnt.objective is None:
            learnt = replace(learnt, objective=family.objective)
        task = learnt.pair_task
        if learnt.pairs is None and task == "next_sentence":
            task = cast(PairTask, family.pair_task)
        learnt = replace(learnt, pairs=task)
        family.check_pretraining_heads(learnt.heads)
        return replace(self, pretraining=learnt.with_shares())

    @property
    def resolved_optim(self) -> OptimSettings:
        """The optimizer settings, by default with the rate of the preset."""
        rate = self.optim.learning_rate or LEARNING_RATES[vars(self.model.resolved)["preset"]]
        return replace(self.optim, learning_rate=rate)

    def going_on_from(self, config: BertConfig) -> "PretrainJob":
        """Fill in shape and learning rate from a trained model's config."""
        rate = CONTINUED_SHARE * LEARNING_RATES[nearest_preset(config)]
        optim = replace(self.optim, learning_rate=self.optim.learning_rate or rate)
        return replace(self, model=self.model.as_in(config), optim=optim)


def nearest_preset(config: BertConfig) -> str:
    """Return the released size with the nearest number of layer weights.

    >>> nearest_preset(BertConfig(30522, 384, 6, 12, 1536))
    'small'
    """
    size = log(config.num_hidden_layers * config.hidden_size**2)
    sizes = {
        name: log(preset["num_hidden_layers"] * preset["hidden_size"] ** 2)
        for name, preset in PRESETS.items()
    }
    return min(sizes, key=lambda name: abs(sizes[name] - size))


def build_objective(
    job: PretrainJob, computing: Computing | None = None, config: BertConfig | None = None
) -> Pretraining:
    """Open both splits of a prepared job's corpus.

    Args:
        computing: hardware that steps are divided for; None if nothing is to be computed.
        config: the shape of the model, if the job does not determine it.

    Raises:
        ConfigError: rows are longer than the model can read.
        CorpusError: the corpus is damaged, or lacks the requested pairs.
    """
    longest = vars(job.model.resolved)["max_position_embeddings"]
    if longest < MIN_LENGTH:
        raise ConfigError(
            f"model.max_position_embeddings: found {longest}; allowed is {MIN_LENGTH} or more."
        )
    if (wanted := job.pretraining.max_length) > longest:
        way_on = f". Give --max-position-embeddings {wanted}, or more."
        if job.from_ is not None:
            way_on = (
                f". Give --max-position-embeddings {wanted}, which lengthens what {job.from_} "
                f"reads, or rows that fit: --max-length {longest}."
            )
        raise ConfigError(
            f"pretraining.max_length: found {wanted}; allowed is at most "
            f"model.max_position_embeddings, {longest}{way_on}"
        )
    kind = ReplacedTokens if job.pretraining.replaces else Pretraining
    corpus = Corpus.open(job.corpus)
    if config is None and job.model.preset != "auto":
        config = model_config(job, corpus)
    return kind(
        corpus,
        Corpus.open(job.corpus, "held_out"),
        job.pretraining,
        batch_size=job.training.batch_size,
        micro_batch_size=None if computing is None else _rows_at_once(job, computing, config),
        seed=job.training.seed,
        eval_rows=job.training.eval_rows or MAX_ROWS,
    )


def _rows_at_once(job: PretrainJob, computing: Computing, config: BertConfig | None) -> int:
    """Return the number of rows that a process computes at once."""
    share = -(-job.training.batch_size // computing.num_processes)
    if job.training.micro_batch_size is not None:
        return min(job.training.micro_batch_size, share)
    at_most = computing.rows_at_once(job.pretraining.max_length, config)
    return even_rows(job.training.batch_size, computing.num_processes, min(share, at_most))


def even_rows(batch_size: int, num_processes: int, at_most: int) -> int:
    """Choose the micro-batch rows that give the busiest process fewest rows.

    The largest such number is taken. Micro-batches are assigned in turn, and the other processes
    wait for the busiest.

    >>> even_rows(64, num_processes=2, at_most=13)
    8
    """

    def busiest(rows: int) -> int:
        firsts = range(0, batch_size, rows * num_processes)
        return sum(min(rows, batch_size - first) for first in firsts)

    return min(range(at_most, 0, -1), key=busiest)


@dataclass(frozen=True)
class Outlook:
    """How often held-out rows are measured, if that was not said, and notes on what fits in."""

    evaluations: EvaluationPlan | None
    notes: tuple[str, ...] = ()

    def fit(self, objective: Pretraining) -> Pretraining:
        """Return the objective with the planned number of held-out rows."""
        if self.evaluations is None:
            return objective
        return objective.resized(objective.batch_size, self.evaluations.rows)

    @property
    def facts(self) -> dict[str, Any]:
        """Return the facts for `run.json`."""
        return {} if self.evaluations is None else {EVALUATIONS: asdict(self.evaluations)}


def look_ahead(
    training: TrainingSettings, objective: Pretraining, model: BertModel, computing: Computing
) -> Outlook:
    """Plan the evaluations of a run, by timing a few rows where its length is in minutes.

    Raises:
        ConfigError: not a single step fits in.
    """
    if training.minutes is None:
        assert training.steps is not None
        steps, plan = training.steps, EvaluationPlan.of_steps(training.steps, objective.batch_size)
        told = f"{steps} step{'s are' if steps > 1 else ' is'}"
    else:
        seconds = 60 * training.minutes
        row = seconds_per_row(objective, model, computing, min(TRIAL_SECONDS, seconds / 200))
        step_seconds = STEP_COST * objective.batch_size * row
        if step_seconds > 2 * seconds:
            raise ConfigError(
                f"training.minutes: found {training.minutes:g}; one step of "
                f"{objective.batch_size} rows takes about {step_seconds / 60:.2g} minutes here, so "
                "none fits in. Give more minutes, fewer rows (--batch-size) or a smaller model."
            )
        steps, plan = round(seconds / step_seconds), EvaluationPlan.of_seconds(seconds, row)
        told = f"about {max(1, steps)} steps fit into {training.minutes:.2g} min,"
    notes = [str(plan)] if training.eval_rows is None and str(plan) else []
    if steps < LEARNING_STEPS:
        notes.append(
            f"{told} too few for a new model to learn more than how frequent words are: give it "
            "more, or a smaller model or --batch-size"
        )
    return Outlook(None if training.eval_rows else plan, tuple(notes))


def look_back(training: TrainingSettings, run: Mapping[str, Any]) -> Outlook:
    """Return the plan of the run that is to be continued, by its `run.json`."""
    if training.eval_rows is not None:
        return Outlook(None)
    if EVALUATIONS in run:
        return Outlook(EvaluationPlan(**run[EVALUATIONS]))
    # Of an earlier version, or of another command, which is refused for other reasons.
    return Outlook(EvaluationPlan(run.get("identity", {}).get("eval_rows", MAX_ROWS), MAX_TIMES))


def choose_size(job: PretrainJob, objective: Pretraining, computing: Computing) -> Choice:
    """Choose the best size for the job's minutes."""
    config = partial(job.model.config, objective.train.corpus)
    return choose_preset(objective, config, job.training.minutes, computing)


def model_config(job: PretrainJob, corpus: Corpus) -> BertConfig:
    """Build the config of a prepared run's initial model."""
    if job.from_ is None:
        return job.model.config(corpus)
    stored, settings = read_folder(job.from_).config, vars(job.model)
    return replace(
        stored,
        vocab_size=max(stored.vocab_size, corpus.vocab_size),
        max_position_embeddings=settings["max_position_embeddings"] + stored.first_position,
        hidden_dropout_prob=settings["hidden_dropout_prob"],
        attention_probs_dropout_prob=settings["attention_probs_dropout_prob"],
    )


def build_model(job: PretrainJob, objective: Pretraining) -> BertModel:
    """Build the initial model of a run, random from the seed."""
    config = model_config(job, objective.train.corpus)
    torch.manual_seed(job.training.seed)
    model = objective.new_model(config)
    if job.model.position_initializer == "sinusoidal":
        initialize_sinusoidal(model)
    return model

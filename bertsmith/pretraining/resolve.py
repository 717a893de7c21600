"""Resolve the user's settings of a pre-training: decide every value that is left open.

`resolve_pretraining` decides in this order: family and objective, size, length, division of a step,
learning rate, evaluations. A resumed run must come to the same values.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import log
from typing import Any

from bertsmith.data.corpus import Corpus
from bertsmith.errors import ConfigError, SettingError, option
from bertsmith.model.config import PRESETS, BertConfig
from bertsmith.model.electra_pair import GENERATOR_SIZE
from bertsmith.model.families import family_named
from bertsmith.model.family import Family
from bertsmith.model.model_folder import read_folder
from bertsmith.model.pretraining_catalog import ObjectiveName
from bertsmith.pretraining.auto_size import NEEDED_TOKENS, SizeChoice, choose_preset
from bertsmith.pretraining.build import objective_over
from bertsmith.pretraining.config import PretrainConfig, SourceFacts
from bertsmith.pretraining.from_model import source_facts
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.micro_batch import rows_of_micro_batch
from bertsmith.pretraining.model_settings import NEW_MODEL, SHAPE_SETTINGS, ModelSettings
from bertsmith.pretraining.objective import COMPARED_ROWS
from bertsmith.pretraining.pair_task import load_pair_task
from bertsmith.pretraining.settings import MIN_LENGTH, PretrainingSettings
from bertsmith.pretraining.step_timer import seconds_per_row
from bertsmith.system.counts import count_noun
from bertsmith.system.torch_modes import drawing_from
from bertsmith.training.budget import MAX_EVAL_ROWS, MAX_TIMES, STEP_COST, EvaluationPlan
from bertsmith.training.findings import LEARNING_STEPS
from bertsmith.training.machine import Machine

LEARNING_RATES = {
    "tiny": 3e-3,
    "mini": 1.5e-3,
    "small": 7e-4,
    "medium": 4e-4,
    "base": 2e-4,
    "large": 1e-4,
}
"""Default learning rate of each size: the larger the model, the smaller the rates that it
tolerates. With the rate of tiny, mini learned nothing in 240 steps; with its own rate it had
learned more than token frequencies after 800 steps. Muon takes the same rates: after 1,500 steps on
film reviews, tiny had a masked-LM loss of 4.26 with 2e-3, 4.13 with 3e-3 and 4.16 with 6e-3; after
4,000 steps, 3.69 with 3e-3 and 3.76 with 6e-3 (one run each)."""

CONTINUED_SHARE = 1 / 3
"""Default learning rate of a continued model, as a fraction of that from scratch. With a higher
rate, a model learns more of the new texts and forgets more of the old (Gupta et al. 2023,
"Continual pre-training of large language models: how to (re)warm your model?"). A first trial
(tiny, 3 minutes of Wikipedia, then 40 seconds of documentation) gave 2.178 bits per character of
the documentation and 2.420 of Wikipedia with the whole rate, 2.153 and 2.411 with a third."""

TRIAL_SECONDS = 0.3
"""Time for which rows are timed to plan a run in minutes; at most a 200th of the run."""


def resolve_pretraining(
    job: PretrainJob,
    corpus: Corpus,
    machine: Machine | None = None,
    *,
    source: SourceFacts | None = None,
    previous: Mapping[str, Any] | None = None,
    teacher: BertConfig | None = None,
) -> PretrainConfig:
    """Decide what the user left open.

    Args:
        job: the user's settings; an open one is None.
        corpus: the training split.
        machine: hardware that steps are divided for; without it nothing is measured, and a step is
            one micro-batch.
        source: facts of the model to continue; by default those of `job.from_`, if it is set.
        previous: the configuration of the run to resume; values that were measured for it are taken
            over, not measured again.
        teacher: in distillation, the config of the teacher. The teacher, too, computes each row,
            which takes time and, for each micro-batch, memory.

    Raises:
        ConfigError: settings exclude each other, or do not fit source, family, length or machine.
        CorpusError: the corpus lacks the requested pairs.
    """
    training = job.training
    notes = list[str]()
    if source is None and job.from_ is not None:
        source = source_facts(str(job.from_), read_folder(job.from_))

    # Family and objective
    if source is not None:
        family = family_named(source.config.model_type)
        default_objective = source.objective
    else:
        family = family_named(job.model.family or "bert")
        default_objective = family.objective
    objective = job.pretraining.objective or default_objective
    is_continued = source is not None
    pretraining = _resolve_objective(job.pretraining, objective, family, is_continued)

    # Size: that of the model to continue, or of a new model
    if source is not None:
        _check_continued(job, source)
        preset, position_initializer, word_initializer = "", "", ""
        shape = _continued_shape(job.model, source.config, corpus)
    else:
        preset = job.model.preset or NEW_MODEL["preset"]
        position_initializer = job.model.position_initializer or NEW_MODEL["position_initializer"]
        word_initializer = job.model.word_initializer or NEW_MODEL["word_initializer"]
        if preset == "auto" and previous is not None:
            # A run without a preset is of another command, or continues a model with `from`. Such a
            # run is refused later, as its settings differ; until then any preset will do.
            preset = previous.get("preset") or "tiny"
        elif preset == "auto":
            choice = _choose_size(job, pretraining, corpus, machine)
            preset = choice.preset
            notes = [str(choice)]
        shape = new_shape(job.model, preset, corpus)
        if not shape.has_position_embedding:
            position_initializer = ""

    # Length of the rows, and division of a step into micro-batches
    _check_length(pretraining.max_length, shape.max_length, source)
    pair_task = load_pair_task(pretraining.pair_task)
    if pair_task is not None:
        pair_task.check_batch_size(training.batch_size)

    if machine is not None:
        machine.check_batch_size(training.batch_size)
    micro_batch_size = rows_of_micro_batch(
        training, pretraining.max_length, teacher or shape, machine
    )
    if training.micro_batch_size is None:
        if pair_task is not None:  # it compares rows, so each process needs some, however many
            fewest = min(pair_task.min_rows, training.batch_size)
            micro_batch_size = max(micro_batch_size, fewest)
        if previous is not None:
            # A contrastive loss depends on the rows that it compares: they stay those of the run.
            micro_batch_size = previous.get(COMPARED_ROWS) or micro_batch_size

    # Learning rate
    if preset:
        default_rate = LEARNING_RATES[preset]
    else:  # a continued model
        default_rate = CONTINUED_SHARE * LEARNING_RATES[nearest_preset(shape)]
    config = PretrainConfig(
        corpus=job.corpus,
        source=source.name if source else "",
        source_weights=source.weights if source else {},
        family=family.name,
        preset=preset,
        model=shape,
        position_initializer=position_initializer,
        word_initializer=word_initializer,
        pretraining=pretraining,
        steps=training.steps,
        minutes=training.minutes,
        batch_size=training.batch_size,
        micro_batch_size=micro_batch_size,
        seed=training.seed,
        optim=replace(job.optim, learning_rate=job.optim.learning_rate or default_rate),
        precision=machine.precision if machine else "fp32",
        evaluations=EvaluationPlan(
            rows=training.eval_rows or MAX_EVAL_ROWS,
            times=MAX_TIMES,
            is_limited=training.eval_rows is None,
        ),
        num_shares=machine.num_shares if machine else 1,
        eval_every=training.eval_every,
        checkpoint_every=training.checkpoint_every,
        keep=training.keep,
        notes=tuple(notes),
    )
    if pair_task is not None:
        pair_task.check_micro_batch_size(config.micro_batch_size)

    # Shares of the run (such as `start_share`) as numbers of steps, and evaluations. If all are
    # given in steps already, the number of the run's steps is not needed, so any number will do.
    if training.steps is not None or not pretraining.has_open_shares:
        config = replace(config, pretraining=pretraining.with_steps_of(training.steps or 0))
    if machine is None:
        return config
    if previous is not None and "evaluations" in previous:
        return _as_before(config, previous)
    if training.steps is not None:  # a run in steps is planned without timing
        if training.eval_rows is not None:
            return config
        plan = EvaluationPlan.of_steps(training.steps, training.batch_size)
        return _with_evaluations(config, plan, training.steps, corpus)
    needs_timing = training.eval_rows is None or config.pretraining.has_open_shares
    return _with_timed_plan(config, corpus, machine, teacher) if needs_timing else config


def resolve_unmeasured(job: PretrainJob) -> PretrainConfig:
    """Decide what the user left open without timing anything; a step is one micro-batch.

    Raises:
        ConfigError, CorpusError: as `resolve_pretraining`.
    """
    return resolve_pretraining(job, Corpus.open(job.corpus))


def _resolve_objective(
    settings: PretrainingSettings, objective: ObjectiveName, family: Family, is_continued: bool
) -> PretrainingSettings:
    """Fill in objective, pairs, shares of masked tokens, and the size of a new generator.

    Raises:
        ConfigError: models of the family have no heads for objective and pairs.
    """
    resolved = replace(settings, objective=objective)
    pairs = resolved.pair_task
    if settings.pairs is None and pairs == "next_sentence":
        pairs = family.pair_task
    resolved = replace(resolved, pairs=pairs).with_shares()
    if resolved.has_generator and not is_continued:
        size = resolved.generator_size or GENERATOR_SIZE
        resolved = replace(resolved, generator_size=size)
    family.check_pretraining_heads(objective, resolved.heads)
    return resolved


def new_shape(settings: ModelSettings, preset: str, corpus: Corpus) -> BertConfig:
    """Build the config of a new model of a preset, with the vocabulary and token ids of a corpus.

    Raises:
        ConfigError: a setting does not fit the family or another setting.
    """
    family = family_named(settings.family or NEW_MODEL["family"])
    tokenizer = corpus.tokenizer()
    config = family.config
    values = {**NEW_MODEL, **family.new_model, **settings.given}
    for name in ("family", "preset", "position_initializer", "word_initializer"):
        del values[name]  # these are not fields of the config
    length = values.pop("max_position_embeddings")
    values |= config.special_token_ids(tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id)
    shape = config.from_preset(preset, corpus.vocab_size, **values)
    if shape.type_vocab_size == 1:  # RoBERTa, whose own tokenizer has one type for both texts
        shape = replace(shape, type_vocab_size=1 + tokenizer.pair_type_id)
    return replace(shape, max_position_embeddings=length + shape.first_position)


def _continued_shape(settings: ModelSettings, source: BertConfig, corpus: Corpus) -> BertConfig:
    """Build the config of a continued model: that of `source` with the settings that may change."""
    values = {name: value for name, value in settings.given.items() if name not in SHAPE_SETTINGS}
    length = values.pop("max_position_embeddings", source.max_length)
    return replace(
        source,
        vocab_size=max(source.vocab_size, corpus.vocab_size),
        max_position_embeddings=length + source.first_position,
        **values,
    )


def _check_continued(job: PretrainJob, source: SourceFacts) -> None:
    """Refuse settings of the shape beside a source, which determines the shape."""
    settings = {f"model.{name}": getattr(job.model, name) for name in SHAPE_SETTINGS}
    settings["pretraining.generator_size"] = job.pretraining.generator_size
    for name, value in settings.items():
        if value is not None:
            raise ConfigError(
                f"{option(name)}: found {value!r} beside {option('from', source.name)}, which has "
                "its own. Leave one of them out."
            )


def _check_length(row_length: int, longest: int, source: SourceFacts | None) -> None:
    """Check that the model can read the rows, and rows of the shortest length at least.

    Args:
        longest: the most tokens that the model reads.

    Raises:
        SettingError: the rows are longer, or the model reads fewer than `MIN_LENGTH` tokens.
    """
    if longest < MIN_LENGTH:
        raise SettingError("model.max_position_embeddings", longest, f"{MIN_LENGTH} or more")
    if row_length > longest:
        advice = f"Give {option('max_position_embeddings', row_length)}, or more."
        if source is not None:
            advice = (
                f"Give {option('max_position_embeddings', row_length)}, which lengthens what "
                f"{source.name} reads, or rows that fit: {option('max_length', longest)}."
            )
        raise SettingError(
            "pretraining.max_length",
            row_length,
            f"at most {option('model.max_position_embeddings')}, {longest}",
            advice,
        )


def _choose_size(
    job: PretrainJob, pretraining: PretrainingSettings, corpus: Corpus, machine: Machine | None
) -> SizeChoice:
    """Choose the size that is best after the job's minutes.

    Raises:
        ConfigError: the length is not in minutes, or nothing can be measured.
    """
    if machine is None:
        raise ConfigError(
            f"{option('model.preset')}: found 'auto', which may choose another size for each run. "
            "Name a size."
        )
    # Without a shape, memory sets no limit here; `choose_preset` limits the rows of each size.
    micro_batch_size = rows_of_micro_batch(
        job.training, pretraining.max_length, shape=None, machine=machine
    )
    trial = objective_over(
        corpus,
        held_out=corpus,  # not read: only training steps are timed
        settings=pretraining,
        batch_size=job.training.batch_size,
        micro_batch_size=micro_batch_size,
    )
    shapes = {preset: new_shape(job.model, preset, corpus) for preset in NEEDED_TOKENS}
    return choose_preset(trial, shapes, job.training.minutes, machine, job.optim.optimizer)


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


def _as_before(config: PretrainConfig, previous: Mapping[str, Any]) -> PretrainConfig:
    """Take over the evaluations, and the steps of `start_share` and similar shares, from a run.

    The run to resume planned them by timing, which would give other numbers now.
    """
    if config.evaluations.is_limited:
        config = replace(config, evaluations=EvaluationPlan.restore(previous["evaluations"]))
    if config.pretraining.has_open_shares:
        names = ("start_steps", "masking_schedule_steps")
        steps = {name: previous.get("pretraining", {}).get(name, 0) for name in names}
        config = replace(config, pretraining=replace(config.pretraining, **steps))
    return config


def _with_timed_plan(
    config: PretrainConfig, corpus: Corpus, machine: Machine, teacher: BertConfig | None
) -> PretrainConfig:
    """Time a few rows to plan a run in minutes: its evaluations, and its shares as steps.

    Raises:
        ConfigError: not a single step fits into the run's minutes.
    """
    assert config.minutes is not None
    seconds = 60 * config.minutes
    # Without eval text there is nothing to evaluate. Rows of the training text take as long.
    held_out = Corpus.open(config.corpus, "held_out") if _has_held_out(corpus) else corpus
    objective = objective_over(
        corpus,
        held_out,
        config.pretraining,
        batch_size=config.batch_size,
        micro_batch_size=config.micro_batch_size,
    )

    def time_rows(shape: BertConfig) -> float:
        """Return the seconds that a model of this shape takes to evaluate a row."""
        with drawing_from(config.seed):
            model = objective.new_model(shape).to(machine.device)
        at_most = min(TRIAL_SECONDS, seconds / 200)
        return seconds_per_row(objective, model, machine, at_most)

    eval_seconds_per_row = time_rows(config.model)
    train_seconds_per_row = STEP_COST * eval_seconds_per_row
    if teacher is not None:  # it computes each row once, without gradients
        train_seconds_per_row += time_rows(teacher)
    step_seconds = config.batch_size * train_seconds_per_row
    if step_seconds > 2 * seconds:
        raise ConfigError(
            f"{option('training.minutes')}: found {config.minutes:g}; one step of "
            f"{config.batch_size} rows takes about {step_seconds / 60:.2g} minutes here, so none "
            f"fits in. Give more minutes, fewer rows ({option('batch_size')}) or a smaller model."
        )
    steps = round(seconds / step_seconds)
    config = replace(config, pretraining=config.pretraining.with_steps_of(steps))
    if not config.evaluations.is_limited:  # the user gave the number of eval rows
        return config
    plan = EvaluationPlan.of_seconds(seconds, eval_seconds_per_row)
    return _with_evaluations(config, plan, steps, corpus)


def _has_held_out(corpus: Corpus) -> bool:
    """Return whether a corpus, of which this is one split, has documents for evaluation."""
    return corpus.manifest.splits["held_out"].documents > 0


def _with_evaluations(
    config: PretrainConfig, plan: EvaluationPlan, steps: int, corpus: Corpus
) -> PretrainConfig:
    """Add a plan of evaluations, and a note if `steps` are too few for a new model to learn much.

    A continued model learned more than token frequencies before, so it gets no such note.
    """
    num_held_out = MAX_EVAL_ROWS if _has_held_out(corpus) else 0
    note = plan.describe(num_held_out, config.steps, config.eval_every)
    notes = [note] if note else []
    if steps < LEARNING_STEPS and not config.source:
        num_steps = count_noun(max(1, steps), "step")
        advice = f"Use more {option('steps')}."
        if config.minutes is not None:
            num_steps = f"About {num_steps} in {config.minutes:.2g} min"
            advice = (
                f"Use more {option('minutes')}, a smaller {option('preset')} or a smaller "
                f"{option('batch_size')}."
            )
        verb = "is" if steps <= 1 else "are"
        notes.append(f"{num_steps} {verb} too few to learn more than token frequencies. {advice}")
    return replace(config, evaluations=plan, notes=(*config.notes, *notes))

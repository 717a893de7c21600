"""Fine-tuning: a pre-trained model and labelled examples in, a model of a task out.

All input is checked before training begins and before an earlier output is touched. The weights of
the best evaluation are kept.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from bertsmith.config import to_jsonable
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import max_text_length
from bertsmith.data.unknown_tokens import UnknownTokens, describe_rate, tell_unknown
from bertsmith.errors import ConfigError, Interrupted
from bertsmith.evaluation.evaluate import accumulate_examples
from bertsmith.finetuning.cls_query_reset import begin_attention
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads
from bertsmith.model.loading import build, load_model
from bertsmith.model.model_folder import ModelFolder, read_folder
from bertsmith.model.saving import write_task_settings
from bertsmith.system.hardware import (
    compute_settings,
    computing_as,
    count_trainers,
    select_device,
    select_precision,
)
from bertsmith.tasks.example_objective import (
    ExampleObjective,
    FineTuning,
    HeldOutExamples,
    training_examples,
)
from bertsmith.tasks.inference import load_for_inference
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.scoring import Evaluation
from bertsmith.tasks.settings import FinetuneSettings
from bertsmith.tasks.task import Task, TaskDataset, named_settings
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.best_weights import BestSettings, BestWeights
from bertsmith.training.checkpoint import Checkpoint, newest_checkpoint
from bertsmith.training.layerwise import LayerwiseOptim, freeze
from bertsmith.training.recorder import Callback
from bertsmith.training.run_folder import RunFolder, machine_facts
from bertsmith.training.trainer import Summary, Trainer, TrainingSettings

MIN_EXAMPLES = 4
"""Examples of a step that justify a process of their own."""

START_NOTE = "start_note"
"""Key in `run.json` of the changes to the loaded weights, in words."""

EVALUATION_SHARE = 0.1
"""Eval examples are scored after each epoch, but at most ten times in a run."""


@dataclass(frozen=True)
class FineTuned:
    """The result of a run: scores of the saved folder, and statistics."""

    out: Path
    task: str
    learnt: str
    labels: tuple[str, ...]
    num_train: int
    num_train_windowed: int
    num_train_truncated: int
    num_train_skipped: int
    num_overlap: int
    notes: tuple[str, ...]
    load_report: str
    start_note: str
    """Changes to the loaded weights before training; empty if none."""
    best_step: int
    best_score: float
    """The score by which the best weights were chosen."""
    learning_rate: float
    training: Summary
    evaluation: Any
    """An `Evaluation`."""

    def to_json(self) -> dict[str, Any]:
        return {**to_jsonable(self), "evaluation": self.evaluation.to_json()}

    def __str__(self) -> str:
        lines = [
            f"learnt {self.learnt} from {self.num_train:,} texts in "
            f"{self.training.steps:,} steps and {self.training.elapsed_seconds:.1f} s; "
            f"best after step {self.best_step:,}",
            f"model in {self.out}",
        ]
        if self.best_step == 0:
            lines.append("no step made it better, so these are the weights that it began with; a "
                         "lower --learning-rate may help")  # fmt: skip
        lines += notes_on(vars(self))
        return "\n".join([*lines, "", str(self.evaluation)])


NOTES = {
    "num_train_windowed": "{:,} training texts were longer than the model reads and were read in "
    "windows",
    "num_train_truncated": "{:,} training texts were longer than can be learnt from; something of "
    "each was left out",
    "num_train_skipped": "{:,} training rows without text or label were skipped",
    "num_overlap": "{:,} of the held-out texts stand in the training file too: the scores below "
    "are too good",
}


CHOSEN = "the scores are of the texts by which the best weights were chosen, so a little too good"


def notes_on(result: Mapping[str, Any]) -> list[str]:
    """List remarks on a run's start and examples, from fields of `FineTuned`."""
    start = [result["start_note"]] if result["start_note"] else []
    notes = [note.format(result[name]) for name, note in NOTES.items() if result[name]]
    of_examples = [f"of the training data, {note}" for note in result["notes"]]
    return [*start, *notes, *of_examples, CHOSEN]


def finetune(
    task_type: type[Task[Any, Any]],
    settings: FinetuneSettings,
    callbacks: Sequence[Callback] = (),
    resume_command: str = "the same call with resume",
    *,
    dataset: TaskDataset[Any] | None = None,
    before: Callable[[], object] = lambda: None,
) -> FineTuned:
    """Fine-tune a model to a task, and score the saved model.

    The examples are those of the settings' files, or of `dataset`. `before` is called when
    everything is read and checked, and before anything is written.

    Raises:
        InputError: the examples cannot be read, or there are none to train on.
        CheckpointError: the model folder is incomplete or not a BERT.
        ConfigError: a setting that this model or machine cannot meet, or an occupied `out`.
        Interrupted: the user asked to stop; a checkpoint to resume from was written.
    """
    check_out(settings)
    with computing_as_begun(settings):
        is_single = dataset is None
        dataset = dataset or task_type.read(settings)
        folder = read_folder(settings.model)
        model, tokenizer = build_for_task(folder, settings, dataset), folder.tokenizer
        begin_attention(model, folder, settings, dataset.task.head)
        limit = max_text_length(tokenizer, model.config.max_length, settings.max_length)
        optim(settings, model.config)  # refuses what this model cannot do
        # Saved with the model, so that it is used as it was trained.
        tokenizer.model_max_length = limit
        objective = build_objective(settings, dataset, tokenizer)
        load_report = str(model.load_report)
        if settings.from_scratch:
            load_report = "nothing but the shape; every weight begins at random (--from-scratch)"
        if is_single:  # a series would repeat it for each of its runs
            tell_unknown(count_unknown(objective.train.encoded, tokenizer), settings.train)
            tell_unknown(count_unknown(objective.held_out.encoded, tokenizer), settings.eval)
        plan = Plan(task_type, settings, dataset, model, tokenizer, objective, load_report)
        before()
        with RunFolder(settings.out).held(lambda: check_out(settings)):
            result = carry_out(plan, callbacks, resume_command)
            write_result(settings.out, result.to_json())
        return result


def computing_as_begun(settings: FinetuneSettings) -> AbstractContextManager[None]:
    """Compute in the block as the run to be resumed does, if one is."""
    return computing_as(RunFolder(settings.out).read_choices() if settings.resume else None)


def write_result(out: Path, result: Mapping[str, Any]) -> None:
    """Mark a run as complete; without this, resuming scores it again."""
    folder = RunFolder(out)
    folder.write_run({**folder.read_run(), "result": dict(result)})


@dataclass(frozen=True)
class Plan:
    """A checked run, of which nothing is written yet."""

    task_type: type[Task[Any, Any]]
    settings: FinetuneSettings
    dataset: TaskDataset[Any]
    model: BertModel
    tokenizer: Tokenizer
    objective: ExampleObjective
    load_report: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of `run.json`."""


def carry_out(plan: Plan, callbacks: Sequence[Callback], resume_command: str) -> FineTuned:
    """Train, and score the saved model."""
    settings, dataset, objective = plan.settings, plan.dataset, plan.objective
    folder = RunFolder(settings.out)
    to_train = not (settings.resume and "summary" in folder.read_run())
    checkpoints = folder.checkpoints_dir if settings.resume and to_train else None
    checkpoint = newest_checkpoint(checkpoints) if checkpoints else None
    model = plan.model if checkpoint is None else load_model(checkpoint.path)
    model.set_dropout(settings.dropout)
    freeze(model, optim(settings, model.config))
    summary, best = train(replace(plan, model=model), checkpoint, callbacks, resume_command)
    dataset.task.write_files(settings.out)
    evaluation = evaluate_saved(plan.task_type, settings, dataset)
    scored = dataset.task.with_threshold(evaluation)
    write_task_settings(settings.out, named_settings(scored))
    return FineTuned(
        out=settings.out,
        task=dataset.task.name,
        learnt=dataset.task.describe_target(),
        labels=dataset.task.labels,
        num_train=len(dataset.train),
        num_train_windowed=objective.train.num_windowed,
        num_train_truncated=objective.train.num_truncated,
        num_train_skipped=dataset.num_skipped,
        num_overlap=dataset.num_overlap,
        notes=objective.train.notes,
        load_report=plan.load_report,
        start_note=folder.read_run().get(START_NOTE, ""),
        best_step=best.step,
        best_score=best.score,
        learning_rate=settings.rate(model.config.hidden_size),
        training=summary,
        evaluation=evaluation,
    )


def check_out(settings: FinetuneSettings) -> None:
    """Refuse an `out` that holds the starting model, or another run."""
    settings.check_held_out()
    out = settings.out
    if settings.model.resolve().is_relative_to(out.resolve()):
        raise ConfigError(f"{out}: holds --model {settings.model}. Choose another --out.")
    check_kind(settings)
    # A single run is complete when it is scored.
    last = "summary" if settings.is_series else "result"
    RunFolder(out).check(
        resume=settings.resume,
        overwrite=settings.overwrite,
        last=last,
        of_series=settings.is_series,
    )


def check_kind(settings: FinetuneSettings) -> None:
    """Refuse to resume a series as a single run, or the reverse."""
    folder = RunFolder(settings.out)
    if not settings.resume or not folder.run_path.exists():
        return
    series = folder.read_run().get("series")
    if series is None and settings.is_series:
        raise ConfigError(
            f"{settings.out}: holds a single run, not a series. Leave out --seeds and --folds to "
            "resume it, or begin a series in another --out."
        )
    if series is not None and not settings.is_series:
        name = "seeds" if series.get("seeds") else "folds"
        raise ConfigError(
            f"{settings.out}: holds a series of runs. Add --{name} {series.get(name)} to resume "
            "it, or begin a new run in another --out."
        )


def build_for_task(
    folder: ModelFolder, settings: FinetuneSettings, dataset: TaskDataset[Any]
) -> BertModel:
    """Build the folder's model with the task's head.

    A stored head is kept if it was trained for the very same labels.
    """
    task = dataset.task
    heads = [] if task.head is None else [task.head]
    num_labels = len(task.labels) or None
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        model = build(folder, heads, num_labels)
        if settings.from_scratch:
            fresh = build_heads(model.config, heads, num_labels)
            model.load_state_dict(BertModel(model.config, fresh).state_dict())
        labels = dict(enumerate(task.labels))
        if model.id2label != labels:
            model.heads.apply(model.initialize)
        if is_head_new(model, labels) or settings.from_scratch:
            task.begin_head(model, dataset.train)
    model.id2label = labels
    model.task_settings = named_settings(task)
    return model


def is_head_new(model: BertModel, labels: dict[int, str]) -> bool:
    """Return whether the head was not loaded for these labels."""
    assert model.load_report is not None
    encoder = f"{model.config.model_type}."
    is_missing = any(not name.startswith(encoder) for name in model.load_report.missing)
    return is_missing or model.id2label != labels


def build_objective(
    settings: FinetuneSettings, dataset: TaskDataset[Any], tokenizer: Tokenizer
) -> FineTuning:
    """Encode all examples, and divide steps among this machine's processes."""
    task, limit = dataset.task, tokenizer.model_max_length
    train = task.encode(tokenizer, dataset.train, limit, labelled=True)
    held_out = task.encode(tokenizer, dataset.held_out, limit, labelled=True)
    learnt = training_examples(task, train, settings.train, dataset.train)
    found = describe_rate(count_unknown(train, tokenizer))
    return FineTuning(
        task,
        learnt if found is None else replace(learnt, notes=(*learnt.notes, found)),
        HeldOutExamples(held_out, settings.eval, dataset.held_out),
        batch_size=settings.batch_size,
        num_parts=count_parts(settings),
        seed=settings.seed,
    )


def count_unknown(encoded: EncodedExamples, tokenizer: Tokenizer) -> float:
    """The share of unknown tokens in all rows."""
    unknown = UnknownTokens()
    unknown.add(encoded.rows.ids, tokenizer)
    return unknown.rate


def count_parts(settings: FinetuneSettings) -> int:
    """Return the most parts of a step that are computed in parallel."""
    device = select_device(settings.device)
    with compute_settings(device, settings.threads):
        return max(1, min(count_trainers(device), settings.batch_size // MIN_EXAMPLES))


def check_parts(folder: RunFolder, batch_size: int, num_parts: int) -> None:
    """Refuse to resume a run whose steps were divided differently.

    The division affects dropout. A changed `batch_size` is left to other checks.

    Raises:
        ConfigError: names the `--threads` to give.
    """
    run = folder.read_run()
    identity = run.get("identity", {})
    before = identity.get("num_parts", num_parts)
    if before == num_parts or identity["batch_size"] != batch_size:
        return
    threads = run["machine"]["threads"]
    raise ConfigError(
        f"{folder.path}: cannot be resumed with other --threads: each step was divided into "
        f"{before} parts, and would now be divided into {num_parts}, which is another run. Give "
        f"--threads {threads}, as it began, or begin a new run in another --out."
    )


def check_start(folder: RunFolder, settings: FinetuneSettings) -> None:
    """Refuse to resume a run with another `--cls-attention`.

    Raises:
        ConfigError: names the `--cls-attention` to give.
    """
    before = folder.read_run()["settings"]["cls_attention"]
    if before != settings.cls_attention:
        raise ConfigError(
            f"{folder.path}: cannot be resumed with another --cls-attention: found "
            f"{settings.cls_attention}; it began with {before}. Give --cls-attention {before}, or "
            "begin a new run in another --out."
        )


def train(
    plan: Plan,
    checkpoint: Checkpoint | None,
    callbacks: Sequence[Callback],
    resume_command: str,
) -> tuple[Summary, BestWeights]:
    """Run the training loop; return its summary and the best weights.

    The loop saves these weights; a run that was stopped after it, before scoring, is not trained
    again.
    """
    settings, model, objective = plan.settings, plan.model, plan.objective
    device = select_device(settings.device)
    used = objective.use_words(model)
    steps = settings.num_steps(objective.steps_per_epoch)
    run = TrainingSettings(
        steps=steps,
        batch_size=settings.batch_size,
        seed=settings.seed,
        eval_every=max(objective.steps_per_epoch, round(steps * EVALUATION_SHARE)),
        keep=1,
    )
    folder = RunFolder(settings.out)
    with compute_settings(device, settings.threads):
        trainer = Trainer(
            model.to(device),
            objective,
            folder,
            run,
            optim(settings, model.config),
            precision=select_precision(settings.precision, device),
            num_processes=objective.num_parts,
            tokenizer=plan.tokenizer,
            callbacks=callbacks,
            best=BestSettings(
                f"held_out_{objective.task.name}_{settings.figure}",
                settings.patience,
                from_start=objective.task.head is None,
            ),
            resume_command=resume_command,
            as_saved=used.widened,
        )
        if settings.resume:
            check_parts(folder, settings.batch_size, objective.num_parts)
            check_start(folder, settings)
        if settings.resume and "summary" in folder.read_run():
            summary = trainer.recall()
        else:
            if settings.resume:
                trainer.resume(checkpoint)
            else:
                note = model.load_report.note if model.load_report else ""
                facts = {"settings": to_jsonable(settings), START_NOTE: note, **plan.facts}
                trainer.begin({**facts, **machine_facts(device)})
            summary = trainer.run()
    assert trainer.best is not None
    shutil.rmtree(folder.checkpoints_dir, ignore_errors=True)
    if trainer.is_stop_requested:
        raise Interrupted(
            f"{folder.path}: stopped after its last step; the model is there and is not yet "
            f"scored. Continue with: {resume_command}"
        )
    return summary, trainer.best


def optim(settings: FinetuneSettings, config: BertConfig) -> LayerwiseOptim:
    """Build the optimizer settings for a model of this shape."""
    return LayerwiseOptim(
        learning_rate=settings.rate(config.hidden_size),
        weight_decay=settings.weight_decay,
        warmup_fraction=settings.warmup_fraction,
        num_layers=config.num_layers,
        shared_parts=config.shared_parts,
        layer_decay=settings.layer_decay,
        freeze_layers=settings.freeze_layers,
        freeze_embeddings=settings.freeze_embeddings,
    )


def evaluate_saved(
    task_type: type[Task[Any, Any]], settings: FinetuneSettings, dataset: TaskDataset[Any]
) -> Evaluation:
    """Score the saved folder, as `bertsmith evaluate` does, on the eval examples."""
    device = select_device(settings.device)
    loaded = load_for_inference(
        read_folder(settings.out),
        heads=task_type.heads,
        device=settings.device,
        precision=settings.precision,
    )
    with compute_settings(device, settings.threads):
        task = task_type.restore(loaded).with_columns(settings.columns)
        predictor = Predictor(loaded, task)
        accumulator = accumulate_examples(predictor, dataset.held_out, settings.eval)
        return accumulator.result(dataset.num_held_out_skipped)

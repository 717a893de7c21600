"""Score the saved model of a fine-tuning, and the baselines that it has to beat.

Baselines are simple methods, such as the most frequent label, that learn from the same examples.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertsmith.data.examples import example_noun
from bertsmith.finetuning.fine_tuned import FineTuned
from bertsmith.finetuning.prepared_run import START_NOTE, PreparedRun
from bertsmith.lineage.elmo_classifier import ElmoClassifierConfig, read_mix
from bertsmith.model.saving import write_task_settings
from bertsmith.tasks.baseline import Baseline
from bertsmith.tasks.predictor import Predictor, accumulate_examples
from bertsmith.tasks.settings.finetune import FinetuneSettings
from bertsmith.tasks.task import Task, TaskDataset, named_settings
from bertsmith.tasks.texts import TextTask
from bertsmith.training.run import Trained
from bertsmith.training.run_folder import RunFolder


def score_saved(
    settings: FinetuneSettings,
    prepared: PreparedRun,
    trained: Trained,
) -> FineTuned:
    """Score the saved model, and store settings that depend on the scores, such as a threshold."""
    dataset, train, best = prepared.dataset, prepared.objective.train, trained.best
    dataset.task.write_files(settings.out)  # the task's own ones, such as the pooling of vectors
    evaluation = None
    task_to_store = dataset.task
    if dataset.held_out:
        predictor = Predictor.load(
            settings.out,
            type(dataset.task),
            device=settings.device,
            precision=settings.precision,
        )
        predictor.unknown_tokens.is_reported = True  # a warning came before training
        # The predictor's definition is the task that the folder stores. Some of its settings, such
        # as how a tagger repairs labels, come from the options for reading.
        task = predictor.definition.with_columns(settings.columns)
        predictor = predictor.with_definition(task)
        accumulator = accumulate_examples(predictor, dataset.held_out, path=settings.eval)
        evaluation = accumulator.result(dataset.num_held_out_skipped)
        task_to_store = task_to_store.with_threshold(evaluation)
    write_task_settings(settings.out, named_settings(task_to_store))
    return FineTuned(
        out=settings.out,
        task=dataset.task.name,
        target=dataset.task.describe_target(),
        labels=dataset.task.labels,
        num_train=len(dataset.train),
        num_train_windowed=train.num_windowed,
        num_train_truncated=train.num_truncated,
        num_train_skipped=dataset.num_skipped,
        num_overlap=dataset.num_overlap,
        notes=train.notes,
        load_report=prepared.load_report,
        start_note=RunFolder(settings.out).read_run().get(START_NOTE, ""),
        best_step=trained.summary.steps if best is None else best.step,
        best_score=None if best is None else best.score,
        learning_rate=prepared.config.optim.peak_rate,
        training=trained.summary,
        evaluation=evaluation,
        noun=noun_of(dataset.task),
        **_mix_of(prepared, settings.out),
    )


def noun_of(task: Task[Any, Any]) -> str:
    """Return the noun for an example of the task in reports."""
    return example_noun(is_pair=task.pairs) if isinstance(task, TextTask) else task.noun


def _mix_of(prepared: PreparedRun, out: Path) -> dict[str, Any]:
    """Return the fields of `FineTuned` about the mean of an ELMo's layers; else none."""
    if not isinstance(prepared.config.model, ElmoClassifierConfig):
        return {}
    mix = read_mix(out)
    return {"layer_shares": tuple(mix.shares.tolist()), "layer_gamma": mix.scale.item()}


def score_baselines(
    settings: FinetuneSettings,
    dataset: TaskDataset[Any],
    initial_scores: Mapping[str, float],
    *,
    costly: bool,
) -> tuple[Baseline, ...]:
    """Score the task's baselines; with `costly`, also those that take some seconds.

    Args:
        initial_scores: scores of the model before training; empty if they were not computed.
    """
    task, train, held_out = dataset.task, dataset.train, dataset.held_out
    if not (train and held_out):
        return ()
    baselines = task.baselines.score_cheap(task, train, held_out, initial_scores)
    if costly:
        baselines += task.baselines.score_costly(task, train, held_out, settings.model, settings)
    return tuple(baselines)


def scores_before(task: str, first_entry: Mapping[str, Any]) -> dict[str, float]:
    """Return the scores before training from a journal's first entry; empty if it has none.

    The journal names a score with a prefix, such as held_out_classify_accuracy. The result has the
    names of reports, such as accuracy.
    """
    if first_entry.get("step") != 0:
        return {}
    prefix = f"held_out_{task}_"
    return {
        name.removeprefix(prefix): value
        for name, value in first_entry.items()
        # `…_score` repeats one of the other scores: the main one of the task.
        if name.startswith(prefix) and not name.endswith(("_loss", "_score"))
    }

"""The linear head as a baseline of fine-tuning: what the same labels give in a second."""

from typing import Any

from bertsmith.errors import BertsmithError
from bertsmith.finetuning.linear_run import fit_task, load_encoder
from bertsmith.finetuning.results import LINEAR_BASELINE
from bertsmith.model.model_folder import read_folder
from bertsmith.tasks.baseline import Baseline
from bertsmith.tasks.predictor import Predictor, accumulate_examples
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.task import TaskDataset
from bertsmith.training.machine import computing_on

MAX_TEXTS = 5000
"""Largest number of training texts, and of eval texts, with which the baseline is scored. The
vectors of more texts take more than a few seconds, and with more training texts fine-tuning is
usually better."""


def has_linear_baseline(settings: ClassifySettings, data: TaskDataset[Any]) -> bool:
    """Whether a linear head is a baseline of this run."""
    return (
        0 < len(data.train) <= MAX_TEXTS
        and 0 < len(data.held_out) <= MAX_TEXTS
        and not settings.begins_at_random
        and read_folder(settings.model).is_encoder
    )


def score_linear_head(settings: ClassifySettings, data: TaskDataset[Any]) -> Baseline | None:
    """Fit a linear head to the training texts, and score it on the eval texts.

    Nothing is written. None if the head cannot be fitted: a run should not fail by its baseline.

    Args:
        settings: those of a run with the linear head.
    """
    try:
        with computing_on(settings) as machine:
            loaded = load_encoder(settings, machine)
            task, _ = fit_task(loaded, data, settings)
            predictor = Predictor(loaded, task.with_columns(settings.columns))
            report = accumulate_examples(predictor, data.held_out, settings.eval).result(0)
    except BertsmithError:
        return None
    names = ["accuracy", "macro_f1"]
    if settings.multi_label:
        names = ["micro_f1", "macro_f1", "subset_accuracy"]
    scores = report.to_json()
    return Baseline(
        LINEAR_BASELINE, "a linear head on the same model", {name: scores[name] for name in names}
    )

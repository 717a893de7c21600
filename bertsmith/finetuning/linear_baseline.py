"""The linear head as a baseline of fine-tuning: it learns from the same labels in a second.

A linear head is logistic regression on the vectors of the model, which is not trained, and on
counted tokens.
"""

from typing import Any

from bertsmith.errors import BertsmithError
from bertsmith.finetuning.linear_run import fit_task
from bertsmith.finetuning.results import LINEAR_BASELINE
from bertsmith.model.model_folder import ModelFolder
from bertsmith.tasks.baseline import Baseline
from bertsmith.tasks.inference import load_for_inference
from bertsmith.tasks.predictor import Predictor, accumulate_examples
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.settings.finetune import FinetuneSettings
from bertsmith.tasks.task import TaskDataset

MAX_TEXTS = 5000
"""Largest number of training texts, and of eval texts, with which the baseline is scored. The
vectors of more texts take more than a few seconds, and with more training texts fine-tuning is
usually better."""


def score_linear_head(
    settings: FinetuneSettings, data: TaskDataset[Any], folder: ModelFolder
) -> tuple[Baseline, ...]:
    """Fit a linear head to the training texts of a fine-tuning, and score it on the eval texts.

    The vectors are those of `folder`, the model before training. Nothing is written. The result
    is empty if the task is not classification, the model is new or no encoder, or there are more
    than `MAX_TEXTS` texts. It is also empty if the head cannot be fitted, since a run should not
    fail by its baseline.
    """
    is_small = 0 < len(data.train) <= MAX_TEXTS and 0 < len(data.held_out) <= MAX_TEXTS
    if not (isinstance(settings, ClassifySettings) and is_small and folder.is_encoder):
        return ()
    if settings.begins_at_random:  # a new model, whose vectors say nothing yet
        return ()
    try:
        loaded = load_for_inference(
            folder,
            device=settings.device,
            precision=settings.precision,
            max_length=settings.max_length,
        )
        task, _ = fit_task(loaded, data, settings.with_head("linear"))
        predictor = Predictor(loaded, task)
        predictor.unknown_tokens.is_reported = True  # a warning came before training
        accumulator = accumulate_examples(predictor, data.held_out, path=settings.eval)
        scores = accumulator.result(num_skipped=0).to_json()
    except BertsmithError:
        return ()
    names = ["accuracy", "macro_f1"]
    if settings.multi_label:
        names = ["micro_f1", "macro_f1", "subset_accuracy"]
    method = "a linear head on the same model"
    return (Baseline(LINEAR_BASELINE, method, {name: scores[name] for name in names}),)

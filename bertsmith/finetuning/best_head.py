"""`finetune classify --head auto`: the head that is best in a cross-validation is trained."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bertsmith.errors import ConfigError, option
from bertsmith.finetuning.folds import folds_of, split
from bertsmith.finetuning.head_choice import HeadChoice, HeadScore
from bertsmith.finetuning.head_comparison import ComparedHeads, compare_heads, cross_validate_head
from bertsmith.finetuning.head_training import AVERAGE, settings_of_head, train_head
from bertsmith.finetuning.label_calibration import (
    FEWEST_TO_CALIBRATE,
    HeldOutAnswers,
    LabelCalibration,
    fit_calibration,
    join_answers,
)
from bertsmith.finetuning.linear_run import open_corpus_of_head
from bertsmith.finetuning.run_files import check_run_out
from bertsmith.finetuning.series import SeriesResult
from bertsmith.model.model_folder import ModelFolder, read_folder
from bertsmith.model.nested_folder import MODULES_FILE
from bertsmith.system.paths import check_outside
from bertsmith.system.progress import progress_bar
from bertsmith.tasks.multi_label_classification import MultiLabel
from bertsmith.tasks.settings.classify import UNUSED_OPTIONS, ClassifySettings, Head
from bertsmith.tasks.task import TaskDataset
from bertsmith.tasks.text_classification import Classify
from bertsmith.training.callback import Callback
from bertsmith.training.run_folder import RunFolder

NUM_FOLDS = 5
"""Number of folds of the cross-validation that compares heads."""
MANY_TO_COMPARE = 100
"""Fewest training examples with which `auto` compares heads. A fold has a fifth of the examples,
and a score on fewer says too little."""
RESUMABLE = ("contrastive", "fine-tuned", AVERAGE)
"""The heads whose training writes checkpoints."""


def finetune_best_head(
    task_type: type[Classify],
    settings: ClassifySettings,
    callbacks: Sequence[Callback] = (),
    resume_command: str = "the same call with resume=True",
    *,
    dataset: TaskDataset[Any] | None = None,
    has_costly_baselines: bool = False,
) -> Any:
    """Score the heads by cross-validation of the training examples, and train the best one.

    With fewer than `MANY_TO_COMPARE` examples, `head_for_few` chooses. The eval examples have no
    part in the choice. The result is that of the best head, a `FineTuned`, a `FittedHead` or the
    `SeriesResult` of an average, with the scores as its `choice`. A resumed run keeps the head that
    it began with, without scores. A contrastive head of `FEWEST_TO_CALIBRATE` examples or more is
    calibrated by its answers to the held-out folds (label_calibration.py). If the settings name a
    corpus, the linear head learns from it, too, in the comparison as well. If they have a budget,
    the heads for which it has no time are left out.

    Raises:
        ConfigError: there are fewer than two different examples; the corpus does not fit the model
            or the examples; or as `finetune`.
        CorpusError: there is no such corpus, or it is damaged.
        InputError: as `finetune`.
        CheckpointError: as `finetune`.
    """
    folder = RunFolder(settings.out)
    is_average_resumed = settings.resume and folder.holds_series
    check_run_out(settings_of_head(settings, AVERAGE) if is_average_resumed else settings)
    check_outside(settings.out, settings.corpus)
    data = dataset or task_type.read(settings)
    model = read_folder(settings.model)
    corpus = open_corpus_of_head(settings, model, data)
    num_folds = len(folds_of(data, NUM_FOLDS, settings.seed))
    if num_folds < 2:
        raise ConfigError(
            f"{option('head', 'auto')} needs at least two different examples to compare by. Choose "
            f"a {option('head')}, or give more examples."
        )
    folds = split(replace(data, held_out=[]), num_folds, settings.seed)
    can_calibrate = _can_calibrate(data, folds)
    compared = ComparedHeads()
    reason = ""
    if settings.resume:
        best = AVERAGE if is_average_resumed else _head_of_run(folder)
    elif len(data.train) < MANY_TO_COMPARE:
        best, reason = head_for_few(model)
    else:
        compared = compare_heads(task_type, settings, corpus, folds, keeps_answers=can_calibrate)
        best = choose_head(compared.scores).head
    calibration = None
    if best == "contrastive" and can_calibrate:
        calibration = _calibrate(task_type, settings, folds, compared.answers)
    result = train_head(
        task_type,
        settings_of_head(settings, best),
        data,
        callbacks,
        resume_command,
        has_costly_baselines=has_costly_baselines,
        calibration=calibration,
        unlabelled=compared.unlabelled,
    )
    if not settings.resume:
        choice = HeadChoice(
            settings.score_key,
            compared.scores,
            best,
            unused=_unused_options(settings, best, is_compared=bool(compared.scores)),
            reason=reason,
            has_corpus=corpus is not None,
            average_has_corpus=settings_of_head(settings, AVERAGE).corpus is not None,
            left_out=compared.left_out,
            minutes=settings.minutes,
        )
        result = replace(result, choice=choice)
    entry = "summary" if isinstance(result, SeriesResult) else "result"
    folder.write_run({**folder.read_run(), entry: result.to_json()})
    return result


def _head_of_run(folder: RunFolder) -> str:
    """Return the head that a stopped run had begun to train.

    Raises:
        ConfigError: the run is one of another task, or its head cannot be resumed.
    """
    run = folder.read_run()
    head: str | None = run["settings"].get("head")
    if head is None:
        raise ConfigError(
            f"{folder.path}: holds a run of 'finetune {run['config']['task']}', not of "
            f"'finetune classify'. Choose another {option('out')}, or resume it by the command "
            "that began it."
        )
    if head not in RESUMABLE:
        raise ConfigError(
            f"{folder.path}: stopped at the head '{head}', which is fitted in seconds and not "
            f"resumed. Pass {option('overwrite', True)} to begin again."
        )
    return head


def _calibrate(
    task_type: type[Classify],
    settings: ClassifySettings,
    folds: Sequence[TaskDataset[Any]],
    answers: Sequence[HeldOutAnswers],
) -> LabelCalibration:
    """Fit the calibration of a contrastive head to its answers to each fold.

    Args:
        answers: those of the comparison; empty if there was none.
    """
    if not answers:
        with progress_bar("calibrating", len(folds)) as advance:
            trials = cross_validate_head(
                task_type, settings, "contrastive", folds, advance, keeps_answers=True
            )
        answers = [trial.answers for trial in trials if trial.answers is not None]
    return fit_calibration(join_answers(answers))


def _unused_options(settings: ClassifySettings, head: str, *, is_compared: bool) -> tuple[str, ...]:
    """Return the names of the given options that have no effect on the chosen head."""
    unused = UNUSED_OPTIONS["fine-tuned" if head == AVERAGE else head]
    # The average may have a part that learned from the corpus, and a budget has its effect on the
    # comparison.
    reads_corpus = head == AVERAGE and settings_of_head(settings, head).corpus is not None
    effective = (["corpus"] if reads_corpus else []) + (["minutes"] if is_compared else [])
    return settings.changed_options([name for name in unused if name not in effective])


def head_for_few(model: ModelFolder) -> tuple[Head, str]:
    """Return the head for few examples, by the kind of model, and the reason in words.

    A published sentence encoder gets the contrastive head: on SST-2 it was ahead of the linear head
    with 16 and 64 labels, and of fine-tuning with 64 (`benchmarks/few-labels.md`). It loses where
    vectors of the encoder tell little, such as the grammar of CoLA. Another model gets the linear
    head. With fewer than five texts per label, this reached 48.1 %, fine-tuning 46.9 % and the
    contrastive head 46.2 %: means of ten sets, with a model of 15 minutes
    (`benchmarks/results/few-labels.md`).
    """
    too_few = f"fewer than {MANY_TO_COMPARE} texts are too few to compare heads, and the model is"
    if model.files.has(MODULES_FILE) and model.config.num_layers > 0:
        return "contrastive", f"{too_few} a sentence encoder"
    return "linear", f"{too_few} no sentence encoder"


def choose_head(scores: Sequence[HeadScore]) -> HeadScore:
    """Return the head with the best mean over the folds.

    Of heads with equal means it is the first in `scores`, which takes the least time to train, but
    for a linear head with a corpus. The best head need not lead by more than chance. With 200
    examples and 5 folds the standard error of a lead is about 3 points. So a rule that asks for a
    lead of one standard error would miss a head that is 3 points better half of the time.
    """
    return max(scores, key=lambda each: each.mean)


def _can_calibrate(data: TaskDataset[Any], folds: Sequence[TaskDataset[Any]]) -> bool:
    """Return whether a head can be calibrated by its answers to these folds of the examples.

    There are enough texts, each has one label, and each label occurs outside of each fold.
    """
    if len(data.train) < FEWEST_TO_CALIBRATE or isinstance(data.task, MultiLabel):
        return False
    labels = set(data.task.labels)
    return all({example.label for example in fold.train} == labels for fold in folds)

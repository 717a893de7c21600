"""`finetune classify --head auto`: choose the best head by cross-validation, and train it.

A *head* is a way to learn from the labels, such as `linear` (logistic regression on frozen vectors)
or `fine-tuned` (the whole model is trained).
"""

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
from bertsmith.system.nested_folder import MODULES_FILE
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
"""Fewest training examples with which `auto` compares heads. Each score comes from a fold, a fifth
of the examples; with fewer examples it says too little."""
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

    With fewer than `MANY_TO_COMPARE` examples, `head_for_few` chooses without a comparison. The
    eval examples have no part in the choice. A resumed run keeps the head that it began with. A
    contrastive head of `FEWEST_TO_CALIBRATE` examples or more is calibrated: its logits are scaled
    and shifted to fit its answers to held-out examples (label_calibration.py). If the settings name
    a corpus, the linear head also learns from these texts without labels, in the comparison as
    well. If the settings have a budget (`minutes`), the comparison leaves out the heads for which
    there is no time.

    Args:
        dataset: the examples; by default those of the settings' files.
        has_costly_baselines: whether to score also the baselines that take some seconds.

    Returns:
        The result of the best head: a `FineTuned`, a `FittedHead`, or the `SeriesResult` of an
        average. Its field `choice` has the scores of all heads; it is None for a resumed run.

    Raises:
        ConfigError: there are fewer than two different examples; the corpus does not fit the model
            or the examples; or as `finetune`.
        CorpusError: there is no such corpus, or it is damaged.
        InputError: as `finetune`.
        CheckpointError: as `finetune`.
        Interrupted: as `finetune`, while the best head is trained.
        KeyboardInterrupt: the user asked to stop while heads were compared; nothing is kept.
    """
    folder = RunFolder(settings.out)
    # Of the heads, only the average of several models writes a series of runs.
    is_average_resumed = settings.resume and folder.holds_series
    check_run_out(settings_of_head(settings, AVERAGE) if is_average_resumed else settings)
    check_outside(settings.out, settings.corpus)  # refuses an output folder within the corpus
    data = dataset or task_type.read(settings)
    model = read_folder(settings.model)
    corpus = open_corpus_of_head(settings, model, data)
    num_folds = len(folds_of(data, NUM_FOLDS, settings.seed))
    if num_folds < 2:
        raise ConfigError(
            f"{option('head', 'auto')} needs at least two different examples to compare by. Choose "
            f"a {option('head')}, or give more examples."
        )
    # Without the eval examples: each fold holds out training examples in their place.
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
    # The training has written its result to run.json; now the result has the choice as well.
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
        answers: the answers to each fold from the comparison; empty if there was no comparison, and
            then the head is trained here with each fold held out.
    """
    if not answers:
        with progress_bar("calibrating", len(folds)) as advance:
            trials = cross_validate_head(
                task_type, settings, "contrastive", folds, advance, keeps_answers=True
            )
        answers = [trial.answers for trial in trials if trial.answers is not None]
    return fit_calibration(join_answers(answers))


def _unused_options(settings: ClassifySettings, head: str, *, is_compared: bool) -> tuple[str, ...]:
    """Return the names of the given options that have no effect on the chosen head.

    Args:
        is_compared: whether heads were compared, so that the budget and the score that compares
            them had an effect.
    """
    unused = UNUSED_OPTIONS["fine-tuned" if head == AVERAGE else head]
    # An average may contain a linear head that learned from the corpus.
    reads_corpus = head == AVERAGE and settings_of_head(settings, head).corpus is not None
    effective = ["corpus"] if reads_corpus else []
    effective += ["minutes", "metric"] if is_compared else []
    return settings.changed_options([name for name in unused if name not in effective])


def head_for_few(model: ModelFolder) -> tuple[Head, str]:
    """Return the head for few examples, by the kind of model, and the reason for this choice.

    A published sentence encoder gets the contrastive head: on SST-2 it was ahead of the linear head
    with 16 and 64 labels, and of fine-tuning with 64 (`benchmarks/few-labels.md`). It loses where
    the encoder's vectors tell little about the labels, as in CoLA, which asks for grammar. Another
    model gets the linear head. With fewer than five texts per label, the linear head reached
    48.1 %, fine-tuning 46.9 % and the contrastive head 46.2 %: means over ten data sets, with a
    model that was pre-trained for 15 minutes (`benchmarks/results/few-labels.md`).
    """
    too_few = f"fewer than {MANY_TO_COMPARE} texts are too few to compare heads, and the model is"
    # sentence-transformers writes this file. A model without layers is a table of static vectors,
    # one for each token, and does not count as a sentence encoder here.
    if model.files.has(MODULES_FILE) and model.config.num_layers > 0:
        return "contrastive", f"{too_few} a sentence encoder"
    return "linear", f"{too_few} no sentence encoder"


def choose_head(scores: Sequence[HeadScore]) -> HeadScore:
    """Return the head with the best mean over the folds.

    Of heads with equal means, the first in `scores` is returned. It takes the least time to train,
    except that a linear head with a corpus may take longer than the next ones. The best head need
    not lead by more than chance. With 200 examples and 5 folds the standard error of a lead is
    about 3 points. So a rule that asks for a lead of one standard error would miss a head that is
    3 points better half of the time.
    """
    return max(scores, key=lambda each: each.mean)


def _can_calibrate(data: TaskDataset[Any], folds: Sequence[TaskDataset[Any]]) -> bool:
    """Return whether a head can be calibrated by its answers to these folds of the examples.

    It can if there are enough texts, if each text has one label, and if each label also occurs
    outside of each fold: otherwise the head of that fold does not know the label.
    """
    if len(data.train) < FEWEST_TO_CALIBRATE or isinstance(data.task, MultiLabel):
        return False
    labels = set(data.task.labels)
    return all({example.label for example in fold.train} == labels for fold in folds)

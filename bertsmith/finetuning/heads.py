"""The heads of text classification: the function that trains each, and the choice of the best.

A head is the part that learns from the labels; `Head` (tasks/settings/classify.py) lists them.
"""

import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertsmith.data.corpus import Corpus
from bertsmith.data.text_files import IN_MEMORY
from bertsmith.errors import ConfigError, option
from bertsmith.finetuning.contrastive_run import finetune_contrastive
from bertsmith.finetuning.folds import folds_of, split
from bertsmith.finetuning.head_choice import HeadChoice, HeadScore
from bertsmith.finetuning.label_calibration import (
    FEWEST_TO_CALIBRATE,
    HeldOutAnswers,
    LabelCalibration,
    fit_calibration,
    join_answers,
)
from bertsmith.finetuning.linear_run import (
    finetune_linear,
    load_encoder,
    open_corpus_of_head,
)
from bertsmith.finetuning.run import finetune
from bertsmith.finetuning.run_files import check_run_out
from bertsmith.finetuning.unlabelled_texts import UnlabelledTexts
from bertsmith.model.model_folder import ModelFolder, read_folder
from bertsmith.model.nested_folder import MODULES_FILE
from bertsmith.system.paths import check_outside
from bertsmith.system.progress import progress_bar
from bertsmith.tasks.auto import load
from bertsmith.tasks.multi_label_classification import MultiLabel
from bertsmith.tasks.predictor import Predictor, accumulate_examples
from bertsmith.tasks.settings.classify import UNUSED_OPTIONS, ClassifySettings, Head
from bertsmith.tasks.settings.finetune import FinetuneSettings
from bertsmith.tasks.task import TaskDataset
from bertsmith.tasks.text_classification import Classify
from bertsmith.training.callback import Callback
from bertsmith.training.machine import computing_on
from bertsmith.training.run_folder import RunFolder

NUM_FOLDS = 5
"""Number of folds of the cross-validation that compares heads."""
MANY_TO_COMPARE = 100
"""Fewest training examples with which `auto` compares heads. A fold has a fifth of the examples,
and a score on fewer says too little."""
COMPARED_HEADS: tuple[Head, ...] = ("counts", "linear", "contrastive", "fine-tuned")
"""The heads that `auto` compares; each takes more time to train than those before it, but for a
linear head that reads a corpus."""

RESUMABLE: tuple[Head, ...] = ("contrastive", "fine-tuned")
"""The heads whose training writes checkpoints."""


def training_function_for(settings: FinetuneSettings) -> Callable[..., Any]:
    """Return the function that trains the head of these settings.

    All functions take the same arguments as `finetune`, except `begin_series`.
    """
    functions: Mapping[str, Callable[..., Any]] = {
        "fine-tuned": finetune,
        "linear": finetune_linear,
        "counts": finetune_linear,
        "contrastive": finetune_contrastive,
        "auto": finetune_best_head,
    }
    return functions[getattr(settings, "head", "fine-tuned")]


def finetune_best_head(
    task_type: type[Classify],
    settings: ClassifySettings,
    callbacks: Sequence[Callback] = (),
    resume_command: str = "the same call with resume=True",
    *,
    dataset: TaskDataset[Any] | None = None,
    has_costly_baselines: bool = False,
) -> Any:
    """Score every head by cross-validation of the training examples, and train the best one.

    With fewer than `MANY_TO_COMPARE` examples, `head_for_few` chooses. The eval examples have no
    part in the choice. The result is that of the best head, a `FineTuned` or a `FittedHead`, with
    the scores as its `choice`. A resumed run keeps the head that it began with, without scores.
    A contrastive head of `FEWEST_TO_CALIBRATE` examples or more is calibrated by its answers to the
    held-out folds (label_calibration.py).
    If the settings name a corpus, the linear head learns from it, too, in the comparison as well.

    Raises:
        ConfigError: there are fewer than two different examples; the corpus does not fit the model
            or the examples; or as `finetune`.
        CorpusError: there is no such corpus, or it is damaged.
        InputError: as `finetune`.
        CheckpointError: as `finetune`.
    """
    check_run_out(settings)
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
    folder = RunFolder(settings.out)
    folds = split(dataclasses.replace(data, held_out=[]), num_folds, settings.seed)
    can_calibrate = _can_calibrate(data, folds)
    scores: tuple[HeadScore, ...] = ()
    reason = ""
    unlabelled: UnlabelledTexts | None = None
    answers: list[HeldOutAnswers] = []  # of the contrastive head, to the folds
    if settings.resume:
        run = folder.read_run()
        best: str | None = run["settings"].get("head")
        if best is None:
            raise ConfigError(
                f"{settings.out}: holds a run of 'finetune {run['config']['task']}', not of "
                f"'finetune classify'. Choose another {option('out')}, or resume it by the command "
                "that began it."
            )
        if best not in RESUMABLE:
            raise ConfigError(
                f"{settings.out}: stopped at the head '{best}', which is fitted in seconds and not "
                f"resumed. Pass {option('overwrite', True)} to begin again."
            )
    elif len(data.train) < MANY_TO_COMPARE:
        best, reason = head_for_few(model)
    else:
        compared = _compare_heads(task_type, settings, corpus, folds, keeps_answers=can_calibrate)
        scores, answers, unlabelled = compared.scores, compared.answers, compared.unlabelled
        best = choose_head(scores).head
    calibration = None
    if best == "contrastive" and can_calibrate:
        if not answers:
            with progress_bar("calibrating", num_folds) as advance:
                _cross_validate(task_type, settings, best, folds, advance, answers)
        calibration = fit_calibration(join_answers(answers))
    unused = settings.changed_options(UNUSED_OPTIONS[best])
    has_corpus = corpus is not None
    choice = HeadChoice(settings.score_key, scores, best, unused, reason, has_corpus)
    result = _train(
        task_type,
        settings.with_head(best),
        data,
        callbacks,
        resume_command,
        has_costly_baselines=has_costly_baselines,
        calibration=calibration,
        unlabelled=unlabelled,
    )
    result = dataclasses.replace(result, choice=None if settings.resume else choice)
    folder.write_run({**folder.read_run(), "result": result.to_json()})
    return result


@dataclasses.dataclass(frozen=True)
class ComparedHeads:
    """The scores of all heads, and what a training of the best one can use again."""

    scores: tuple[HeadScore, ...]
    answers: list[HeldOutAnswers]
    """Answers of the contrastive head to each fold; empty if they are not kept."""
    unlabelled: UnlabelledTexts | None
    """Texts of the corpus, read once for all linear heads; None without a corpus."""


def _compare_heads(
    task_type: type[Classify],
    settings: ClassifySettings,
    corpus: Corpus | None,
    folds: Sequence[TaskDataset[Any]],
    *,
    keeps_answers: bool,
) -> ComparedHeads:
    """Score every head by cross-validation; the linear head learns from the corpus, too."""
    began = time.perf_counter()
    unlabelled = None
    if corpus is not None:
        with computing_on(settings) as machine:
            # No name holds the encoder, so that its memory is free while the heads are trained.
            unlabelled = UnlabelledTexts.read(
                corpus, load_encoder(settings, machine), settings.seed
            )
    reading_seconds = time.perf_counter() - began
    scores: list[HeadScore] = []
    answers: list[HeldOutAnswers] = []
    with progress_bar("comparing heads", len(COMPARED_HEADS) * len(folds)) as advance:
        for head in COMPARED_HEADS:
            kept = answers if head == "contrastive" and keeps_answers else None
            score = _cross_validate(task_type, settings, head, folds, advance, kept, unlabelled)
            if head == "linear":  # the others have no use for the corpus
                score = dataclasses.replace(score, seconds=score.seconds + reading_seconds)
            scores.append(score)
    return ComparedHeads(tuple(scores), answers, unlabelled)


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


def _train(
    task_type: type[Classify],
    settings: ClassifySettings,
    data: TaskDataset[Any],
    callbacks: Sequence[Callback] = (),
    resume_command: str = "the same call",
    *,
    has_costly_baselines: bool = False,
    calibration: LabelCalibration | None = None,
    unlabelled: UnlabelledTexts | None = None,
) -> Any:
    """Train a head; without eval examples, fine-tuning keeps the weights of its last step."""
    options: dict[str, Any] = {}
    if calibration is not None:
        options["calibration"] = calibration
    if unlabelled is not None and settings.head == "linear":
        options["unlabelled"] = unlabelled
    return training_function_for(settings)(
        task_type,
        settings,
        callbacks,
        resume_command,
        dataset=data,
        has_costly_baselines=has_costly_baselines,
        **options,
    )


def _can_calibrate(data: TaskDataset[Any], folds: Sequence[TaskDataset[Any]]) -> bool:
    """Return whether a head can be calibrated by its answers to these folds of the examples.

    There are enough texts, each has one label, and each label occurs outside of each fold.
    """
    if len(data.train) < FEWEST_TO_CALIBRATE or isinstance(data.task, MultiLabel):
        return False
    labels = set(data.task.labels)
    return all({example.label for example in fold.train} == labels for fold in folds)


def _cross_validate(
    task_type: type[Classify],
    settings: ClassifySettings,
    head: str,
    folds: Sequence[TaskDataset[Any]],
    advance: Callable[[int], object],
    answers: list[HeldOutAnswers] | None = None,
    unlabelled: UnlabelledTexts | None = None,
) -> HeadScore:
    """Train a head with each fold held out, and score it on that fold.

    Args:
        answers: a list to which the answers to each fold are appended.
        unlabelled: the texts of the settings' corpus, from which a linear head learns, too.
    """
    scores, training_seconds, prediction_seconds = [], [], []
    for fold in folds:
        with tempfile.TemporaryDirectory(prefix="bertsmith-") as directory:
            out = Path(directory) / "model"
            fold_settings = dataclasses.replace(
                settings.with_head(head),
                out=out,
                eval=IN_MEMORY,
                overwrite=False,
                resume=False,
                report_to=None,
            )
            began = time.perf_counter()
            # Without eval examples, so that the fold does not choose the best weights.
            without_eval = dataclasses.replace(fold, held_out=[])
            _train(task_type, fold_settings, without_eval, unlabelled=unlabelled)
            training_seconds.append(time.perf_counter() - began)
            num_bytes = sum(file.stat().st_size for file in out.glob("*.safetensors"))
            predictor = load(out, device=settings.device, precision=settings.precision)
            began = time.perf_counter()
            report = accumulate_examples(predictor, fold.held_out, settings.train).result(0)
            prediction_seconds.append(time.perf_counter() - began)
            scores.append(float(getattr(report, settings.score_key)))
            if answers is not None:
                answers.append(_answers_of(predictor, fold))
            advance(1)
    return HeadScore(
        head,
        tuple(scores),
        seconds=statistics.fmean(training_seconds),
        texts_per_second=sum(len(fold.held_out) for fold in folds) / sum(prediction_seconds),
        megabytes=num_bytes / 1e6,
    )


def _answers_of(predictor: Predictor[Any], fold: TaskDataset[Any]) -> HeldOutAnswers:
    """Predict the held-out examples of a fold."""
    task: Any = fold.task
    labels = task.targets(fold.held_out)
    weights = np.ones(len(task.labels)) if task.loss.weights is None else task.loss.weights
    return HeldOutAnswers(
        predictor.probabilities(fold.held_out),
        labels,
        np.asarray(weights, np.float64)[labels],
        num_folds=1,
    )

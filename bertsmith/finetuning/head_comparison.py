"""Compare the heads of text classification by cross-validation, within a budget of time.

`finetune classify --head auto` calls this before it trains the best head. A head is a way to learn
from the labels, such as `linear` or `fine-tuned`. A fold is a part of the training examples. Each
head is trained once for each fold, on the examples outside of the fold, and scored on those inside.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bertsmith.data.corpus import Corpus
from bertsmith.errors import Interrupted, NotFiniteError
from bertsmith.finetuning.head_budget import BudgetWatch, HeadBudget, OverBudget
from bertsmith.finetuning.head_choice import HeadScore, LeftOutHead
from bertsmith.finetuning.head_training import AVERAGE, NUM_AVERAGED, settings_of_head, train_head
from bertsmith.finetuning.label_calibration import HeldOutAnswers
from bertsmith.finetuning.linear_run import load_encoder
from bertsmith.finetuning.unlabelled_texts import UnlabelledTexts
from bertsmith.system.progress import progress_bar
from bertsmith.system.temporary_folder import temporary_folder
from bertsmith.tasks.auto import load
from bertsmith.tasks.predictor import Predictor, accumulate_examples
from bertsmith.tasks.settings.classify import ClassifySettings, Head
from bertsmith.tasks.task import TaskDataset
from bertsmith.tasks.text_classification import Classify
from bertsmith.training.machine import computing_on

COMPARED_HEADS: tuple[Head, ...] = ("counts", "linear", "contrastive", "fine-tuned")
"""The heads that `auto` compares. Each takes more time to train than those before it, except that a
linear head that reads a corpus may take longer than the next ones. With a budget, the average of
several fine-tuned models is compared, too."""


@dataclass(frozen=True)
class ComparedHeads:
    """The scores of the heads, and what a training of the best one can use again."""

    scores: tuple[HeadScore, ...] = ()
    left_out: tuple[LeftOutHead, ...] = ()
    """Heads for which the budget had no time."""
    answers: tuple[HeldOutAnswers, ...] = ()
    """Answers of the contrastive head to each fold; empty if they are not kept."""
    unlabelled: UnlabelledTexts | None = None
    """Texts of the corpus, read once for all linear heads; None without a corpus."""


@dataclass(frozen=True)
class FoldTrial:
    """A head that was trained without the examples of a fold, and scored on them."""

    score: float
    training_seconds: float
    prediction_seconds: float
    num_bytes: int
    """Size of the weights on disk."""
    answers: HeldOutAnswers | None
    """Answers to the examples of the fold; None if they are not kept."""


def compare_heads(
    task_type: type[Classify],
    settings: ClassifySettings,
    corpus: Corpus | None,
    folds: Sequence[TaskDataset[Any]],
    *,
    keeps_answers: bool,
) -> ComparedHeads:
    """Score the heads by cross-validation.

    The first head is always compared. Each other head is compared if the budget
    (`settings.minutes`) has the time for its comparison and for a training of the best head.

    Args:
        corpus: texts without labels, from which the linear head learns, too; None for none.
        folds: the examples with one fold held out each.
        keeps_answers: whether to keep the answers of the contrastive head to the folds.

    Raises:
        KeyboardInterrupt: the user asked to stop; nothing is kept.
        TrainingError: a training had to end, as its loss was NaN.
    """
    budget = HeadBudget(settings.minutes, len(folds))
    began = time.perf_counter()
    unlabelled = None
    if corpus is not None:
        with computing_on(settings) as machine:
            # No name holds the encoder, so that its memory is free while the heads are trained.
            unlabelled = UnlabelledTexts.read(
                corpus, load_encoder(settings, machine), settings.seed
            )
    reading_seconds = time.perf_counter() - began
    heads: list[str] = [*COMPARED_HEADS]
    if settings.minutes is not None:
        heads.append(AVERAGE)
    scores: list[HeadScore] = []
    left_out: list[LeftOutHead] = []
    answers: list[HeldOutAnswers] = []
    with progress_bar("comparing heads", len(heads) * len(folds)) as advance:
        for head in heads:
            is_kept = keeps_answers and head == "contrastive"
            try:
                trials = cross_validate_head(
                    task_type,
                    settings,
                    head,
                    folds,
                    advance,
                    keeps_answers=is_kept,
                    unlabelled=unlabelled,
                    budget=budget if scores else None,
                )
            except OverBudget as error:
                left_out.append(LeftOutHead(head, error.minutes))
                continue
            score = _summarize(head, folds, trials)
            budget.note_training(score.seconds)
            # In a training on its own, the linear head has to read the corpus first.
            if head == "linear":
                score = replace(score, seconds=score.seconds + reading_seconds)
            scores.append(score)
            answers += [trial.answers for trial in trials if trial.answers is not None]
    return ComparedHeads(tuple(scores), tuple(left_out), tuple(answers), unlabelled)


def cross_validate_head(
    task_type: type[Classify],
    settings: ClassifySettings,
    head: str,
    folds: Sequence[TaskDataset[Any]],
    advance: Callable[[int], object],
    *,
    keeps_answers: bool = False,
    unlabelled: UnlabelledTexts | None = None,
    budget: HeadBudget | None = None,
) -> list[FoldTrial]:
    """Train a head with each fold held out, and score it on that fold.

    Args:
        advance: receives the number of folds that are done.
        unlabelled: the texts of the settings' corpus, from which a linear head learns, too.
        budget: the time that is left; None for no limit.

    Raises:
        OverBudget: the budget has no time for all folds.
    """
    trials: list[FoldTrial] = []
    try:
        for fold in folds:
            watch = None  # ends the first training as soon as it is seen to take too long
            if budget is not None and not trials:
                watch = BudgetWatch(budget, len(folds), NUM_AVERAGED if head == AVERAGE else 1)
            trials.append(
                _try_fold(
                    task_type,
                    settings,
                    head,
                    fold,
                    watch,
                    keeps_answers=keeps_answers,
                    unlabelled=unlabelled,
                )
            )
            advance(1)
            if budget is not None:
                seconds = [trial.training_seconds + trial.prediction_seconds for trial in trials]
                budget.check(statistics.fmean(seconds), len(folds) - len(trials))
    except OverBudget:
        advance(len(folds) - len(trials))  # none of these will be done
        raise
    return trials


def _try_fold(
    task_type: type[Classify],
    settings: ClassifySettings,
    head: str,
    fold: TaskDataset[Any],
    watch: BudgetWatch | None,
    *,
    keeps_answers: bool,
    unlabelled: UnlabelledTexts | None,
) -> FoldTrial:
    """Train a head without the held-out examples of a fold, and score it on them.

    Raises:
        OverBudget: `watch` ended the training.
        KeyboardInterrupt: the user asked to stop.
        TrainingError: the training had to end, as its loss was NaN.
    """
    with temporary_folder() as folder:
        out = folder / "model"
        fold_settings = settings_of_head(settings, head).for_fold(out)
        callbacks = [] if watch is None else [watch]
        # Without eval examples, so that the fold does not choose the best weights.
        without_eval = replace(fold, held_out=[])
        began = time.perf_counter()
        try:
            train_head(task_type, fold_settings, without_eval, callbacks, unlabelled=unlabelled)
        # These errors name a checkpoint and a file in the temporary folder, which is now removed.
        except Interrupted:
            raise KeyboardInterrupt("stopped while heads were compared; nothing is kept") from None
        except NotFiniteError as error:
            raise error.without_file() from None
        training_seconds = time.perf_counter() - began
        predictor = load(out, device=settings.device, precision=settings.precision)
        # A warning would name the temporary folder; the result of the run tells of unknown tokens.
        predictor.unknown_tokens.is_reported = True
        began = time.perf_counter()
        num_skipped = 0  # rows without a label were counted when the file was read
        # Messages name the training file, from which the examples of a fold come.
        accumulator = accumulate_examples(predictor, fold.held_out, path=settings.train)
        report = accumulator.result(num_skipped)
        prediction_seconds = time.perf_counter() - began
        return FoldTrial(
            float(getattr(report, settings.score_key)),
            training_seconds,
            prediction_seconds,
            # The models of an average lie in folders below the first one.
            sum(file.stat().st_size for file in out.rglob("*.safetensors")),
            _answers_of(predictor, fold) if keeps_answers else None,
        )


def _answers_of(predictor: Predictor[Any], fold: TaskDataset[Any]) -> HeldOutAnswers:
    """Predict the held-out examples of a fold; return their probabilities, labels and weights."""
    task: Any = fold.task
    labels = task.targets(fold.held_out)
    # The weight of each label in the loss; without class weights each label counts the same.
    weights = np.ones(len(task.labels)) if task.loss.weights is None else task.loss.weights
    return HeldOutAnswers(
        predictor.probabilities(fold.held_out),
        labels,
        np.asarray(weights, np.float64)[labels],
        num_folds=1,
    )


def _summarize(
    head: str, folds: Sequence[TaskDataset[Any]], trials: Sequence[FoldTrial]
) -> HeadScore:
    """Build the row of a head in the report."""
    num_predicted = sum(len(fold.held_out) for fold in folds)
    return HeadScore(
        head,
        tuple(trial.score for trial in trials),
        seconds=statistics.fmean(trial.training_seconds for trial in trials),
        texts_per_second=num_predicted / sum(trial.prediction_seconds for trial in trials),
        megabytes=trials[-1].num_bytes / 1e6,
    )

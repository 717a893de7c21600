"""The HTML page of an evaluation: scores, confusion, wrong answers, calibration, lengths.

An outcome is one prediction beside the gold (right) answer, with its score and confidence. Only
sums, counts and a few examples are kept of the outcomes, so files may have any size.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.reader import count_chars
from bertsmith.evaluation.word_influence import MAX_WORDS, mark_influential
from bertsmith.metrics.answer_report import AnswerReport
from bertsmith.metrics.answers import INFINITE_SCORE
from bertsmith.metrics.class_report import ClassReport
from bertsmith.metrics.classification import Calibration
from bertsmith.metrics.entities import TagReport
from bertsmith.metrics.names import format_score, score_meaning, score_name
from bertsmith.pages.charts import Chart, Point, Series, round_step, shorten_name
from bertsmith.pages.colors import Color
from bertsmith.pages.page import unbroken_percent, write_page
from bertsmith.pages.scale import Scale
from bertsmith.tasks.baseline import Baseline
from bertsmith.tasks.marks import MarkedPart
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.scoring import Evaluation, Outcome
from bertsmith.tasks.sentence_embedding import Embed
from bertsmith.tasks.task import Task
from bertsmith.tasks.text_classification import Classify

FIRST_LENGTH = 32
"""Upper limit, in characters, of the first length group; each further limit is twice the last."""
MAX_CLASSES_SHOWN = 40
"""Largest number of classes for which the page shows a confusion matrix."""
NUM_MISSES = 20
"""Largest number of wrong answers on the page."""
MISS_CHARS = 400
"""Number of characters of a wrong answer's text that the page shows at first."""
MIN_ANSWERS = 10
"""Smallest number of answers of similar confidence whose accuracy is drawn as a point."""
NUM_THRESHOLDS = 200
"""Number of bins of confidence, from 0 to 1, and of points of the curves over the threshold."""
MAX_POINTS_SHOWN = 1000
"""Largest number of points of the scatter plot; for more examples every second, every fourth … is
drawn."""

NOT_PERCENTAGES = {"matthews_correlation", "pearson", "spearman", "rmse", "mrr"}
"""Scores that are shown as numbers, because they are not shares."""


class ScoreTile(NamedTuple):
    """A score as the page shows it."""

    title: str
    value: str
    meaning: str
    baselines: Sequence[str]
    """The baselines that have this score, each with its value."""


class Miss(NamedTuple):
    """A wrong answer, of which the page shows the most urgent ones."""

    urgency: float
    """Confidence of the answer or, without one, its negative score."""
    order: int
    """Number that decides between equally urgent answers: higher for earlier ones."""
    example: Any
    outcome: Outcome


@dataclass(frozen=True)
class LengthGroup:
    """Examples of similar length, in characters, and their mean score."""

    first: int
    last: int
    count: int
    score: float


class Confusion(NamedTuple):
    """Counts of predictions by gold name (row) and predicted name (column)."""

    unit: str
    """The noun for what is counted, in the plural, such as "texts"."""
    names: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass
class ErrorSurvey:
    """Accumulator of outcomes for the page, a callback of `evaluate`."""

    calibration: Calibration = field(default_factory=Calibration)
    num_examples: int = 0
    num_misses: int = 0
    is_numeric: bool = False
    """Whether the answers are numbers."""
    confidences: dict[tuple[str, str], NDArray[np.int64]] = field(default_factory=dict)
    """For tasks with two labels: counts of confidences, in `NUM_THRESHOLDS` steps, by gold and
    predicted label."""
    points: list[Point] = field(default_factory=list)
    """Right and predicted numbers of every `_stride`-th example."""
    _stride: int = 1
    _misses: list[Miss] = field(default_factory=list)
    """A heap of the `NUM_MISSES` most urgent wrong answers, the least urgent one at its root."""
    _counts: dict[int, int] = field(default_factory=dict)
    """Number of examples by length group."""
    _scores: dict[int, float] = field(default_factory=dict)
    """Sum of scores by length group."""

    def add(self, examples: Sequence[Any], outcomes: Sequence[Outcome]) -> None:
        """Add a chunk of examples with their outcomes."""
        with_confidence = [outcome for outcome in outcomes if outcome.confidence is not None]
        self.calibration.add(
            np.array([outcome.confidence for outcome in with_confidence], dtype=np.float64),
            np.array([outcome.is_right for outcome in with_confidence], dtype=np.float64),
        )
        self.is_numeric |= any(outcome.is_numeric for outcome in outcomes)
        for example, outcome in zip(examples, outcomes, strict=True):
            if outcome.is_numeric and self.num_examples % self._stride == 0:
                self._add_point(outcome)
            self.num_examples += 1
            if not outcome.is_right:
                self.num_misses += 1
                miss = Miss(outcome.urgency, -self.num_examples, example, outcome)
                if len(self._misses) < NUM_MISSES:
                    heapq.heappush(self._misses, miss)
                else:  # the least urgent one of all is dropped
                    heapq.heappushpop(self._misses, miss)
            group = length_group(count_chars(example.content))
            self._counts[group] = self._counts.get(group, 0) + 1
            self._scores[group] = self._scores.get(group, 0.0) + outcome.score
        for outcome in with_confidence:
            pair = (outcome.gold, outcome.predicted)
            # Two labels make four pairs of gold and prediction. A fifth pair shows that there are
            # more labels, for which the counts are not used.
            if pair not in self.confidences and len(self.confidences) < 5:
                self.confidences[pair] = np.zeros(NUM_THRESHOLDS, dtype=np.int64)
            if pair in self.confidences:
                # A confidence of 1 belongs to the last bin.
                step = int((outcome.confidence or 0.0) * NUM_THRESHOLDS)
                self.confidences[pair][min(step, NUM_THRESHOLDS - 1)] += 1

    def _add_point(self, outcome: Outcome) -> None:
        """Add a point to the scatter plot; if there are too many, drop every second one first."""
        if len(self.points) == MAX_POINTS_SHOWN:
            self.points = self.points[::2]
            self._stride = 2 * self._stride
            if self.num_examples % self._stride:
                return
        self.points.append((float(outcome.gold), float(outcome.predicted)))

    @property
    def misses(self) -> list[Miss]:
        """The most urgent wrong answers, the most urgent one first."""
        return sorted(self._misses, reverse=True)

    @property
    def distance(self) -> float:
        """The mean distance from gold: 1 minus the mean score."""
        return 1 - sum(self._scores.values()) / max(1, self.num_examples)

    def lengths(self) -> list[LengthGroup]:
        """Return the groups of examples of similar length, in rising order of the length."""
        return [
            LengthGroup(
                first=0 if group == 0 else FIRST_LENGTH * 2 ** (group - 1) + 1,
                last=FIRST_LENGTH * 2**group,
                count=self._counts[group],
                score=self._scores[group] / self._counts[group],
            )
            for group in sorted(self._counts)
        ]


def length_group(num_chars: int) -> int:
    """Return the number of a text's length group: 0 up to `FIRST_LENGTH` characters.

    Each further group holds texts of up to twice as many characters as the one before.

    >>> [length_group(num_chars) for num_chars in (0, 32, 33, 64, 65)]
    [0, 0, 1, 1, 2]
    """
    return max(0, (num_chars - 1).bit_length() - (FIRST_LENGTH - 1).bit_length())


def write_evaluation_page(
    path: Path,
    predictor: Predictor[Task[Any, Any]],
    survey: ErrorSurvey,
    evaluation: Evaluation,
    baselines: Sequence[Baseline],
    *,
    model: Path,
    data: Path,
) -> None:
    """Write the page of an evaluation whose outcomes `survey` received.

    Args:
        evaluation: the report with the scores.
        baselines: simple methods, whose scores are shown beside those of the model.
        model: the model's folder, which the page names.
        data: the file of the examples, which the page names.
    """
    # Of numbers, the page shows the mean error of each length group: 1 minus the mean score.
    largest_error = max((abs(1 - group.score) for group in survey.lengths()), default=0.0) or 1.0
    # Remarks of the report, if it has some: `list` returns an empty list.
    notes: Callable[[], list[str]] = getattr(evaluation, "notes", list)
    misses = survey.misses
    definition = predictor.definition
    parts: Sequence[Sequence[MarkedPart]] = [miss.outcome.parts for miss in misses]
    are_influences = False  # whether the marked parts are the words that decided
    if isinstance(definition, Classify):
        are_influences = True
        # A copy of the same definition, which type checkers now know to be a classifier's.
        classifier = predictor.with_definition(definition)
        parts = mark_influential(classifier, [miss.example for miss in misses])
    write_page(
        path,
        "evaluation/page.html",
        task=definition.name,
        model=str(model),
        data=str(data),
        scores=scores_of(evaluation, baselines),
        notes=[*notes(), *_scale_notes(definition)],
        scatter=draw_scatter(survey.points),
        scatter_count=len(survey.points),
        # Scores of each label of a classifier, or of each type of a tagger; other tasks have none.
        classes=getattr(evaluation, "classes", getattr(evaluation, "types", ())),
        survey=survey,
        misses=misses,
        parts=parts,
        are_influences=are_influences,
        max_words=MAX_WORDS,
        miss_chars=MISS_CHARS,
        calibration=survey.calibration,
        reliability=draw_reliability(survey.calibration),
        thresholds=draw_thresholds(survey, evaluation),
        lengths=survey.lengths(),
        is_numeric=survey.is_numeric,
        share=Scale(0, 1),  # of bars for shares; `scale` is that of bars for scores or errors
        scale=Scale(0, largest_error if survey.is_numeric else 1.0),
        confusion=_confusion_of(evaluation),
    )


def scores_of(evaluation: Evaluation, baselines: Sequence[Baseline] = ()) -> list[ScoreTile]:
    """List each score once, shares as percentages, with the values of the baselines."""
    hidden = set[str]()  # scores that the page does not show
    examples, labels = "texts", "labels"  # words for both in the meaning of a score
    max_score = 1.0
    own_meanings: dict[str, str] = {}
    match evaluation:
        case ClassReport():
            hidden = {"micro_f1"}  # equals accuracy
            examples = f"{evaluation.noun}s"
        case TagReport():
            examples = "words"
            labels = evaluation.unit
            if evaluation.scheme == "plain":
                hidden = {"precision", "recall", "f1"}
        case AnswerReport():
            hidden = {"NoAns_f1"}  # equals NoAns_exact
            max_score = 100.0
            own_meanings["f1"] = "overlap of the answers' words with the right ones"
    tiles = []
    for name, value in evaluation.to_json().items():
        # Counts are whole numbers, and a threshold is no score.
        if not isinstance(value, float) or name in hidden or name.endswith(("thresh", "threshold")):
            continue
        title = score_name(name)
        meaning = own_meanings.get(name) or score_meaning(name, examples, labels)
        baseline_values = [
            f"{each.method}: {_format_value(name, each.scores[name], max_score)}"
            for each in baselines
            if name in each.scores
        ]
        shown = _format_value(name, value, max_score)
        tiles.append(ScoreTile(title[0].upper() + title[1:], shown, meaning, baseline_values))
    return tiles


def _format_value(name: str, value: float, max_score: float) -> str:
    """Format a score as a number, or as a percentage of `max_score`."""
    is_number = name in NOT_PERCENTAGES or abs(value) >= INFINITE_SCORE
    return (
        format_score(name, value, decimals=3) if is_number else unbroken_percent(value / max_score)
    )


def _confusion_of(evaluation: Evaluation) -> Confusion | None:
    """Return the confusion matrix; None for too many classes, or for a task without one."""
    match evaluation:
        case ClassReport():
            names = tuple(row.label for row in evaluation.classes)
            confusion = Confusion(f"{evaluation.noun}s", names, evaluation.confusion)
        case TagReport():
            confusion = Confusion("words", evaluation.word_types, evaluation.confusion)
        case _:
            return None
    return confusion if len(confusion.names) <= MAX_CLASSES_SHOWN else None


def _scale_notes(task: Task[Any, Any]) -> list[str]:
    """Describe the conversion of the data's scores to cosines, if there is one."""
    if not isinstance(task, Embed) or task.score_range is None:
        return []
    low, high = task.score_range
    if (low, high) == (0, 1):
        return []
    if low == 0:
        return [f"the scores of the data are divided by {high:g}, as a cosine is at most 1"]
    return [f"the scores of the data, {low:g} to {high:g}, are mapped to cosines from 0 to 1"]


def draw_scatter(points: Sequence[Point]) -> Chart | None:
    """Draw predicted over right numbers, `points`; None where all right numbers are equal."""
    right = [x for x, _ in points]
    if len(set(right)) < 2:
        return None
    numbers = [value for point in points for value in point]
    step = round_step(max(numbers) - min(numbers))
    low = step * (min(numbers) // step)  # rounded down to whole steps
    high = -step * (-max(numbers) // step)  # rounded up
    return Chart(
        "Predicted over right numbers",
        "right",
        "predicted",
        [  # each series has a name, points, a style and a color
            Series("examples", points, "points", 0),
            Series("predicted = right", [(low, low), (high, high)], "line", 2),
        ],
        low=low,
        high=high,
        x_low=low,
        x_high=high,
    )


def draw_reliability(calibration: Calibration) -> Chart | None:
    """Draw accuracy over confidence; None unless two bins of confidence have `MIN_ANSWERS`.

    The points of a calibrated model lie on the diagonal.
    """
    bins = [each for each in calibration.bins() if each.count >= MIN_ANSWERS]
    if len(bins) < 2:
        return None
    points = [(each.confidence, each.accuracy) for each in bins]
    return Chart(
        "Accuracy by confidence",
        "confidence",
        "share that is right",
        [
            Series("perfect calibration", [(0.0, 0.0), (1.0, 1.0)], "line", 2),
            Series("this model", points, "dots", 0),
        ],
        is_share=True,
    )


class Thresholds(NamedTuple):
    """Scores of the second of two labels, over the threshold.

    The threshold is the least probability at which that label is predicted.
    """

    label: str
    chart: Chart
    best: float
    best_f1: float
    usual_f1: float
    """F1 at the threshold of 0.5, by which the model predicts."""


def draw_thresholds(survey: ErrorSurvey, evaluation: Evaluation) -> Thresholds | None:
    """Draw precision, recall and F1 over the threshold; None unless there are two labels."""
    if not isinstance(evaluation, ClassReport) or len(evaluation.classes) != 2:
        return None
    label = evaluation.classes[1].label
    # Examples by the probability of `label`, in `NUM_THRESHOLDS` bins: those that have the label,
    # and those that do not.
    with_label, without_label = np.zeros(NUM_THRESHOLDS), np.zeros(NUM_THRESHOLDS)
    for (gold, predicted), confidences in survey.confidences.items():
        counts = with_label if gold == label else without_label
        # The confidence in the other label is 1 minus the probability of this one.
        counts += confidences if predicted == label else confidences[::-1]
    # For each threshold, the examples at or above it: their label is predicted.
    right, wrong = (counts[::-1].cumsum()[::-1] for counts in (with_label, without_label))
    total = right[0]  # all examples that have the label
    if not total or not wrong[0]:  # only one of the labels occurs
        return None
    predicted_counts = right + wrong
    thresholds = np.arange(NUM_THRESHOLDS) / NUM_THRESHOLDS
    f1 = 2 * right / (predicted_counts + total)
    has_any = predicted_counts > 0  # no precision is drawn where the label is never predicted
    colors: tuple[Color, ...] = (3, 1, 0)
    curves = {
        "precision": right / np.maximum(predicted_counts, 1),
        "recall": right / total,
        "F1": f1,
    }
    series = [
        Series(
            name,
            list(zip(thresholds[has_any].tolist(), values[has_any].tolist(), strict=True)),
            "mean",  # the style of lines that differ in their dashes, too
            color,
        )
        for (name, values), color in zip(curves.items(), colors, strict=True)
    ]
    title = "Scores by the threshold"
    x_label = shorten_name(f"least probability of {label}")
    chart = Chart(title, x_label, y_label="", series=series, is_share=True, high=1.0, x_high=1.0)
    best = int(f1.argmax())
    return Thresholds(
        label,
        chart,
        best=thresholds[best],
        best_f1=f1[best],
        usual_f1=f1[NUM_THRESHOLDS // 2],  # the bins divide the range from 0 to 1
    )

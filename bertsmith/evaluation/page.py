"""The HTML page of an evaluation: confusion matrix, calibration, and scores by text length.

Sums are updated as predictions arrive, so files may have any size.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bertsmith.metrics.answers import ENDLESS
from bertsmith.metrics.class_report import ClassReport
from bertsmith.metrics.classification import Calibration
from bertsmith.metrics.entities import TagReport
from bertsmith.pages.charts import Chart, Scale, Series
from bertsmith.pages.page import write_page
from bertsmith.tasks.scoring import Evaluation, Outcome

FIRST_LENGTH = 32
"""Upper limit, in characters, of the first length group; each further limit is twice the last."""
MAX_CLASSES = 40
"""Most classes of a confusion matrix that fits on the page."""


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
    names: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass
class Survey:
    """Accumulator of outcomes for the page."""

    calibration: Calibration = field(default_factory=Calibration)
    num_examples: int = 0
    num_misses: int = 0
    is_distance: bool = False
    """Whether the answers are numbers."""
    _counts: dict[int, int] = field(default_factory=dict)
    _scores: dict[int, float] = field(default_factory=dict)

    def see(self, examples: Sequence[Any], outcomes: Sequence[Outcome]) -> None:
        """Add labelled examples with their outcomes."""
        sure = [outcome for outcome in outcomes if outcome.confidence is not None]
        self.calibration.add(
            np.array([outcome.confidence for outcome in sure], dtype=np.float64),
            np.array([outcome.is_right for outcome in sure], dtype=np.float64),
        )
        self.num_examples += len(outcomes)
        self.num_misses += sum(not outcome.is_right for outcome in outcomes)
        self.is_distance = any(outcome.is_distance for outcome in outcomes)
        for example, outcome in zip(examples, outcomes, strict=True):
            group = max(0, (example.num_chars - 1).bit_length() - FIRST_LENGTH.bit_length() + 1)
            self._counts[group] = self._counts.get(group, 0) + 1
            self._scores[group] = self._scores.get(group, 0.0) + outcome.score

    @property
    def distance(self) -> float:
        """The mean distance from gold: 1 minus the mean score."""
        return 1 - sum(self._scores.values()) / max(1, self.num_examples)

    def lengths(self) -> list[LengthGroup]:
        """Group the examples by length, in rising order."""
        return [
            LengthGroup(
                first=0 if group == 0 else FIRST_LENGTH * 2 ** (group - 1) + 1,
                last=FIRST_LENGTH * 2**group,
                count=self._counts[group],
                score=self._scores[group] / self._counts[group],
            )
            for group in sorted(self._counts)
        ]


def write_evaluation_page(
    path: Path,
    task: str,
    survey: Survey,
    evaluation: Evaluation,
    *,
    model: Path,
    data: Path,
) -> None:
    """Write the page of an evaluation whose outcomes `survey` received."""
    longest = max((abs(1 - group.score) for group in survey.lengths()), default=0.0) or 1.0
    write_page(
        path,
        "evaluation/page.html",
        task=task,
        model=str(model),
        data=str(data),
        summary=str(evaluation),
        scores=scores_of(evaluation),
        survey=survey,
        calibration=survey.calibration,
        reliability=reliability(survey.calibration),
        lengths=survey.lengths(),
        is_distance=survey.is_distance,
        scale=Scale(0, longest if survey.is_distance else 1.0),
        confusion=_confusion_of(evaluation),
    )


def scores_of(evaluation: Evaluation) -> list[tuple[str, float]]:
    """List the evaluation's numbers by name, without unbounded thresholds."""
    return [
        (name.replace("_", " "), value)
        for name, value in evaluation.to_json().items()
        if isinstance(value, float) and abs(value) < ENDLESS
    ]


def _confusion_of(evaluation: Evaluation) -> Confusion | None:
    """Return the evaluation's confusion matrix, if it has one that fits."""
    match evaluation:
        case ClassReport():
            names = tuple(row.label for row in evaluation.classes)
            found = Confusion("texts", names, evaluation.confusion)
        case TagReport():
            found = Confusion("words", evaluation.word_types, evaluation.confusion)
        case _:
            return None
    return found if len(found.names) <= MAX_CLASSES else None


def reliability(calibration: Calibration) -> Chart | None:
    """Draw accuracy over confidence; None without confidences.

    On the diagonal, probabilities are calibrated.
    """
    if not calibration.num_predictions:
        return None
    points = [(each.confidence, each.accuracy) for each in calibration.bins()]
    return Chart(
        "How often it is right when it is so sure",
        "confidence",
        "share that is right",
        [
            Series("what confidence promises", [(0.0, 0.0), (1.0, 1.0)], "line", 2),
            Series("this model", points, "dots", 0),
        ],
        is_share=True,
    )

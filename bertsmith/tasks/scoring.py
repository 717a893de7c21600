"""Scores of predictions: accumulators, evaluations and the outcome of each example."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from bertsmith.tasks.marks import MarkedPart


class Evaluation(Protocol):
    """Scores of a model, for people (`str`) and for programs."""

    def to_json(self) -> dict[str, Any]: ...


class MetricAccumulator(Protocol):
    """Accumulator of examples with their predictions, a portion at a time."""

    def add(self, examples: Sequence[Any], predictions: Sequence[Any]) -> None:
        """Add a portion.

        Memory must not grow with the number of examples, or by a few bytes for each.

        Raises:
            InputError: an example has a label that the model does not know.
        """
        ...

    def figures(self) -> dict[str, float]:
        """Compute `loss`, and the scores by which weights may be chosen: the larger, the better."""
        ...

    def result(self, num_skipped: int = 0) -> Evaluation:
        """Compute all scores."""
        ...


class PredictionCounts(ABC):
    """Base of accumulators: the loss, and counts of the predictions."""

    metrics: ClassVar[tuple[str, ...]] = ()
    """Scores of the report by which weights may be chosen."""
    loss = 0.0
    """Sum over the predictions; `figures` gives its mean."""
    num_predictions = 0
    num_truncated = 0
    num_windowed = 0

    def count(self, predictions: Sequence[Any]) -> None:
        """Count the predictions, those of texts that were cut, and those read in windows."""
        self.num_predictions += len(predictions)
        self.num_truncated += sum(prediction.is_truncated for prediction in predictions)
        self.num_windowed += sum(prediction.num_windows > 1 for prediction in predictions)

    def counts(self, num_skipped: int) -> dict[str, Any]:
        """Return the counts by their names in reports."""
        return {
            "num_truncated": self.num_truncated,
            "num_windowed": self.num_windowed,
            "num_skipped": num_skipped,
        }

    def figures(self) -> dict[str, float]:
        report = self.result()
        scores = {name: getattr(report, name) for name in self.metrics}
        return {"loss": self.loss / self.num_predictions, **scores}

    @abstractmethod
    def result(self, num_skipped: int = 0) -> Any: ...


@dataclass(frozen=True)
class Outcome:
    """A prediction beside its gold answer, as text, for reports.

    `score` is 1 for a correct prediction and less otherwise; `confidence`, from 0 to 1, is None
    where the model gives none. `is_exact` is given where a score of 1 does not imply a correct
    prediction.
    """

    text: str
    gold: str
    predicted: str
    score: float
    confidence: float | None = None
    is_exact: bool | None = None
    is_distance: bool = False
    """Whether answers are numbers, so that `score` is 1 minus the distance from gold."""
    parts: Sequence[MarkedPart] = ()
    """The text with wrong answers marked; empty where answers have no place in it."""

    @property
    def is_right(self) -> bool:
        """Whether the prediction is correct."""
        return self.score >= 1 if self.is_exact is None else self.is_exact

    @property
    def urgency(self) -> float:
        """Larger for worse wrong predictions: the confidence; without one, the negative score."""
        return -self.score if self.confidence is None else self.confidence

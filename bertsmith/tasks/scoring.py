"""Scores of predictions: accumulators, evaluations and the outcome of each example.

An accumulator adds up scores chunk by chunk, so that files may have any size. Its result is an
evaluation. The outcome of an example is its prediction beside the right answer, as text.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from bertsmith.tasks.marks import MarkedPart


class Evaluation(Protocol):
    """Scores of a model, for people (`str`) and for programs (`to_json`)."""

    def to_json(self) -> dict[str, Any]: ...


class MetricAccumulator(Protocol):
    """Accumulator of scores, which receives examples with their predictions chunk by chunk."""

    def add(self, examples: Sequence[Any], predictions: Sequence[Any]) -> None:
        """Add a chunk.

        The accumulator may keep a few bytes for each example, but not the examples.

        Raises:
            InputError: an example has a label that the model does not know.
        """
        ...

    def compute_metrics(self) -> dict[str, float]:
        """Compute `loss`, and the scores that may choose the best weights (larger is better)."""
        ...

    def result(self, num_skipped: int = 0) -> Evaluation:
        """Compute all scores."""
        ...


class PredictionCounts(ABC):
    """Base of accumulators: it has the loss and the counts of the predictions."""

    metrics: ClassVar[tuple[str, ...]] = ()
    """Names of the scores that `compute_metrics` returns: attributes of what `result` returns."""
    loss = 0.0
    """Sum of the losses of the predictions; `compute_metrics` gives their mean."""
    num_predictions = 0
    num_truncated = 0
    num_windowed = 0

    def count(self, predictions: Sequence[Any]) -> None:
        """Count predictions, and how many of their texts were cut, or were read in windows."""
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

    def compute_metrics(self) -> dict[str, float]:
        """Compute the mean loss and the scores in `metrics`."""
        report = self.result()
        scores = {name: getattr(report, name) for name in self.metrics}
        return {"loss": self.loss / self.num_predictions, **scores}

    @abstractmethod
    def result(self, num_skipped: int = 0) -> Any: ...


@dataclass(frozen=True)
class Outcome:
    """A prediction beside its gold answer, as text, for reports."""

    text: str
    gold: str
    predicted: str
    score: float
    """1 for a correct prediction, and less otherwise."""
    confidence: float | None = None
    """From 0 to 1; None if the model gives no probability."""
    is_exact: bool | None = None
    """Whether the prediction is correct; None if a score of 1 says so. An answer of question
    answering may have the right words in another order, and then a score, F1, of 1."""
    is_numeric: bool = False
    """Whether answers are numbers, so that `score` is 1 minus the distance from gold."""
    parts: Sequence[MarkedPart] = ()
    """The text with wrong answers marked; empty if answers are not parts of the text."""

    @property
    def is_right(self) -> bool:
        """Whether the prediction is correct."""
        return self.score >= 1 if self.is_exact is None else self.is_exact

    @property
    def urgency(self) -> float:
        """The sort key of wrong predictions; those with the highest key are shown first.

        The key is the confidence or, without one, the negative score.
        """
        return -self.score if self.confidence is None else self.confidence

"""Regression: a number for each text or pair of texts.

The model is BERT's encoder and pooler with one linear output on [CLS], trained by the mean squared
error, as the paper does for STS-B (section 4.1).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.examples import Columns, Example, are_pairs
from bertsmith.data.labels import numbers
from bertsmith.errors import InputError
from bertsmith.metrics.regression import NumberReport
from bertsmith.model.bert import BertModel
from bertsmith.model.heads import ClassificationHead
from bertsmith.tasks.example_objective import mean_over_rows
from bertsmith.tasks.scoring import Outcome, PredictionCounts
from bertsmith.tasks.settings import WindowSettings
from bertsmith.tasks.texts import TextTask
from bertsmith.training.objective import LossTerm

Metric = Literal["pearson", "spearman"]

CLOSE = 0.5
"""Largest error that counts as correct, in standard deviations of the training labels."""


@dataclass(frozen=True)
class RegressSettings(WindowSettings):
    """Settings of `finetune regress`."""

    metric: Metric = "pearson"
    """Score by which the best weights are chosen: pearson, the correlation with the true numbers,
    or spearman, that with their order."""
    columns: Columns = field(default_factory=Columns)


@dataclass(frozen=True, slots=True)
class NumberPrediction:
    """The predicted number of a text."""

    value: float
    is_truncated: bool = False
    num_windows: int = 1

    @property
    def answer(self) -> float:
        return self.value

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def line(self, example: Example) -> str:
        return "\t".join([f"{self.value:.4f}", *example.one_line()])


class NumberAccumulator(PredictionCounts):
    """Accumulator of true and predicted numbers, 16 bytes per example."""

    metrics = ("pearson", "spearman", "rmse")

    def __init__(self, place: Path) -> None:
        self.place = place
        self.parts: list[NDArray[np.float64]] = []

    def add(self, examples: Sequence[Example], predictions: Sequence[NumberPrediction]) -> None:
        true = numbers(examples, self.place)
        predicted = np.array([prediction.value for prediction in predictions])
        self.parts.append(np.stack([true, predicted]))
        self.loss += float(np.square(predicted - true).sum())
        self.count(predictions)

    def result(self, num_skipped: int = 0) -> NumberReport:
        true, predicted = np.concatenate(self.parts, axis=1)
        return NumberReport.of(true, predicted, **self.counts(num_skipped))


@dataclass(frozen=True)
class Regress(TextTask[NumberPrediction]):
    """Regression of a number on texts or pairs."""

    spread: float = field(default=1.0, compare=False)
    """Standard deviation of the training labels, used to count close predictions; not saved."""

    titles = ("value", "text", "second text")
    name = "regress"
    description = """Teach a BERT to give texts, or pairs of texts, a number.

Takes a pre-trained model and two files of texts with numbers: one to learn from, one to score by.
The result is a folder that `bertsmith evaluate`, `bertsmith predict` and Hugging Face's
transformers open."""
    settings = RegressSettings
    heads = ("regress",)

    @classmethod
    def of_examples(cls, train: list[Example], settings: RegressSettings) -> Self:
        spread = float(varied_numbers(train, settings.train).std())
        return cls(windowing=settings.windowing, pairs=are_pairs(train), spread=spread)

    def check_held_out(self, examples: Sequence[Example], settings: RegressSettings) -> None:
        """Raise InputError where all labels are the same number."""
        varied_numbers(examples, settings.eval)

    def begin_head(self, model: BertModel, examples: Sequence[Example]) -> None:
        """Set the bias to the labels' mean; scale weights by their deviation."""
        targets = numbers(examples, Path("examples"))
        head = model.heads["regress"]
        assert isinstance(head, ClassificationHead)
        with torch.no_grad():
            head.dense.bias.fill_(float(targets.mean()))
            head.dense.weight.mul_(float(targets.std()))

    def targets(self, examples: Sequence[Example]) -> NDArray[np.float32]:
        return numbers(examples, Path("examples")).astype(np.float32)

    def compute_loss(self, outputs: Tensor, batch: Batch) -> LossTerm:
        logits = mean_over_rows(outputs, batch)
        return LossTerm(*self._compare(logits, batch.targets["labels"]), len(logits))

    def _compare(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Sum the squared error; correct are close predictions."""
        is_close = (logits[:, 0] - targets).abs() <= CLOSE * self.spread
        return F.mse_loss(logits[:, 0], targets, reduction="sum"), is_close.sum()

    def compare_with_teacher(
        self, logits: Tensor, taught: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Compute the squared error; `temperature` does not apply to numbers."""
        return self._compare(logits, taught[:, 0])

    def prediction(
        self, outputs: NDArray[np.float32], is_truncated: bool, num_windows: int
    ) -> NumberPrediction:
        return NumberPrediction(float(outputs[0]), is_truncated, num_windows)

    def accumulator(self, place: Path) -> NumberAccumulator:
        return NumberAccumulator(place)

    def describe_target(self) -> str:
        return "a number"

    def outcome(self, example: Example, prediction: NumberPrediction) -> Outcome:
        gold = float(str(example.label))
        return Outcome(
            text=" | ".join(example.one_line()),
            gold=str(example.label),
            predicted=f"{prediction.value:.4f}",
            score=1.0 - abs(prediction.value - gold),
            is_distance=True,
        )


def varied_numbers(examples: Sequence[Example], place: Path) -> NDArray[np.float64]:
    """Return the numbers of examples, fp64 `[examples]`.

    Raises:
        InputError: all are the same, so that there is nothing to learn or correlate.
    """
    found = numbers(examples, place)
    if np.ptp(found) == 0:
        raise InputError(
            f"{place}: the number is {examples[0].label} in every row. Give examples with "
            "different ones."
        )
    return found


TASK = Regress

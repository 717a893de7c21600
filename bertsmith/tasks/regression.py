"""Regression: a number for each text or pair of texts.

The model is BERT's encoder and pooler with one linear output on [CLS], trained by the mean squared
error, as the paper does for STS-B (section 4.1).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.examples import Columns, Example, are_pairs, random_sample, read_examples
from bertsmith.data.labels import numbers
from bertsmith.data.windows import Windowing
from bertsmith.errors import InputError
from bertsmith.metrics.regression import NumberReport
from bertsmith.model.bert import BertModel
from bertsmith.model.heads import ClassificationHead
from bertsmith.system.compute import Advanced
from bertsmith.tasks.agreement import Agreement, compare_numbers
from bertsmith.tasks.example_objective import mean_over_rows
from bertsmith.tasks.inference import LoadedModel
from bertsmith.tasks.scoring import Outcome, PredictionCounts
from bertsmith.tasks.settings import Sources, WindowSettings
from bertsmith.tasks.task import TaskDataset
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
    sample: Advanced[int | None] = None
    """Number of rows of --train to use, drawn at random; all by default."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_positive("sample")


@dataclass(frozen=True, slots=True)
class NumberPrediction:
    """The predicted number of a text."""

    value: float
    is_truncated: bool = False
    """Whether the text was longer than the model reads, so that its end was ignored."""
    num_windows: int = 1
    """Number of windows in which the model read the text."""

    @property
    def answer(self) -> float:
        return self.value

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def line(self, example: Example) -> str:
        """Format number and text, separated by tabs."""
        return "\t".join([f"{self.value:.4f}", *example.one_line()])


class NumberAccumulator(PredictionCounts):
    """Accumulator of true and predicted numbers, 16 bytes per example."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.parts: list[NDArray[np.float64]] = []

    def add(self, examples: Sequence[Example], predictions: Sequence[NumberPrediction]) -> None:
        predicted = np.array([prediction.value for prediction in predictions])
        self.parts.append(np.stack([numbers(examples, self.place), predicted]))
        self.count(predictions)

    def figures(self) -> dict[str, float]:
        """Compute the mean squared error, the RMSE and both correlations."""
        report = self.result()
        return {
            "loss": report.rmse**2,
            "pearson": report.pearson,
            "spearman": report.spearman,
            "rmse": report.rmse,
        }

    def result(self, num_skipped: int = 0) -> NumberReport:
        true, predicted = np.concatenate(self.parts, axis=1)
        return NumberReport.of(true, predicted, **self.counts(num_skipped))


@dataclass(frozen=True)
class Regress(TextTask[NumberPrediction]):
    """Regression of a number on texts or pairs."""

    spread: float = field(default=1.0, compare=False)
    """Standard deviation of the training labels, used to count close predictions; not saved."""

    titles = ("value", "text", "second text")
    name: ClassVar[str] = "regress"
    description: ClassVar[str] = """Teach a BERT to give texts, or pairs of texts, a number.

Takes a pre-trained model and two files of texts with numbers: one to learn from, one to score by.
The result is a folder that `bertsmith evaluate`, `bertsmith predict` and Hugging Face's
transformers open."""
    settings: ClassVar = RegressSettings
    heads: ClassVar[tuple[str, ...]] = ("regress",)

    @classmethod
    def read(
        cls, settings: RegressSettings, sources: Sources | None = None
    ) -> TaskDataset[Example]:
        """Read both files.

        Raises:
            InputError: a label is no number, or all training labels are equal.
        """
        columns = settings.columns
        train_source, eval_source = sources or settings.sources
        train, num_skipped = read_examples(train_source, columns, limit=settings.limit)
        train = random_sample(train, settings.sample, settings.seed)
        targets = varied_numbers(train, settings.train)
        pairs = are_pairs(train)
        held_out, num_held_out_skipped = read_examples(
            eval_source, columns, limit=settings.eval_limit, pairs=pairs
        )
        varied_numbers(held_out, settings.eval)
        task = cls(windowing=settings.windowing, pairs=pairs, spread=float(targets.std()))
        return TaskDataset(task, train, held_out, num_skipped, num_held_out_skipped)

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        """Restore the task from a folder's windows and pairs."""
        settings = loaded.model.task_settings
        return cls(windowing=Windowing.of_settings(settings), pairs=settings.get("pairs"))

    def begin_head(self, model: BertModel, examples: Sequence[Example]) -> None:
        """Set the bias to the labels' mean; scale weights by their deviation."""
        targets = numbers(examples, Path("examples"))
        head = model.heads["regress"]
        assert isinstance(head, ClassificationHead)
        with torch.no_grad():
            head.dense.bias.fill_(float(targets.mean()))
            head.dense.weight.mul_(float(targets.std()))

    def targets(self, examples: Sequence[Example]) -> Mapping[str, NDArray[Any]]:
        """Return `numbers`, fp32 `[examples]`."""
        return {"numbers": numbers(examples, Path("examples")).astype(np.float32)}

    def compute_loss(self, outputs: Tensor, batch: Batch) -> LossTerm:
        """Sum the squared error over the batch; `correct` counts close predictions."""
        found, targets = mean_over_rows(outputs, batch)[:, 0], batch.targets["numbers"]
        return LossTerm(*self._compare(found, targets), len(targets))

    def distillation_loss(
        self, outputs: Tensor, taught: Tensor, batch: Batch, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Compute the squared error; `temperature` does not apply to numbers."""
        found, wanted = (mean_over_rows(each, batch)[:, 0] for each in (outputs, taught))
        return self._compare(found, wanted)

    def _compare(self, found: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
        is_close = (found - wanted).abs() <= CLOSE * self.spread
        return F.mse_loss(found, wanted, reduction="sum"), is_close.sum()

    def predict(
        self, model: BertModel, encoded: EncodedExamples, examples: Sequence[Example]
    ) -> list[NumberPrediction]:
        values = self.logits(model, encoded)
        return [
            NumberPrediction(value, num_cut > 0, num_windows)
            for value, num_cut, num_windows in zip(
                values[:, 0].tolist(), encoded.num_cut, encoded.num_rows, strict=True
            )
        ]

    def accumulator(self, place: Path) -> NumberAccumulator:
        return NumberAccumulator(place)

    def describe_target(self) -> str:
        return "a number"

    def outcome(self, example: Example, prediction: NumberPrediction) -> Outcome:
        """Score 1 minus the distance from the gold number."""
        gold = float(str(example.label))
        return Outcome(
            text=" | ".join(example.one_line()),
            gold=str(example.label),
            predicted=f"{prediction.value:.4f}",
            score=1.0 - abs(prediction.value - gold),
            is_distance=True,
        )

    def agreement(
        self, mine: Sequence[NumberPrediction], exact: Sequence[NumberPrediction]
    ) -> Agreement:
        return compare_numbers(*([each.value for each in side] for side in (mine, exact)))


def varied_numbers(examples: Sequence[Example], place: Path) -> NDArray[np.float64]:
    """The numbers of examples, fp64 `[examples]`.

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

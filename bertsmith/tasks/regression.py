"""Regression: a number for each text or pair of texts.

The model is BERT's encoder and pooler with one linear output on [CLS], trained by the mean squared
error, as for STS-B in Devlin et al. 2019 (section 4.1). Labels are standardized for training, so
that the model learns a rate of 0.00003 as well as a price in millions. In a saved model the last
layer computes numbers in the labels' unit.
"""

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.examples import Example, are_pairs, example_noun
from bertsmith.data.labels import numeric_labels
from bertsmith.errors import ExamplesError, InputError
from bertsmith.metrics.regression import NumberReport
from bertsmith.model.bert import BertModel
from bertsmith.model.heads import ClassificationHead
from bertsmith.system.counts import format_number
from bertsmith.tasks.checked_examples import CHECKED_EXAMPLES
from bertsmith.tasks.cross_encoder import Activation, read_activation
from bertsmith.tasks.inference import LoadedModel
from bertsmith.tasks.number_baselines import NumberBaselines
from bertsmith.tasks.number_prediction import NumberPrediction
from bertsmith.tasks.probabilities import sigmoid
from bertsmith.tasks.row_means import mean_over_rows
from bertsmith.tasks.scoring import Outcome, PredictionCounts
from bertsmith.tasks.settings.regress import RegressSettings
from bertsmith.tasks.texts import TextTask
from bertsmith.training.objective import LossTerm

MAX_CLOSE_ERROR = 0.5
"""Largest error that counts as correct, in standard deviations of the training labels."""

DEVIATION_RANGE = 1e-30, 1e30
"""Smallest and largest standard deviation of labels for which the head's weights fit into fp32."""

MIN_EXACT_SPREAD = 1e-5
"""Smallest standard deviation, relative to the mean, at which fp32 rounds no prediction
noticeably."""

MIN_STORED_SPREAD = 5e-7
"""Smallest standard deviation, relative to the mean, for which labels can be stored: it spans 4 to
8 numbers of fp32. Below it, a saved model would give nearly the same number for every text."""

HEAD_LAYER = "heads.regress.dense"
"""Name of the head's last layer in the model."""


class NumberAccumulator(PredictionCounts):
    """Accumulator of true and predicted numbers, 16 bytes per example."""

    # Scores that are computed after each evaluation; Pearson or Spearman may choose the weights.
    metrics = ("pearson", "spearman", "rmse")

    def __init__(self, path: Path, deviation: float = 1.0) -> None:
        """Build an empty accumulator; the loss is that of numbers divided by `deviation`."""
        self.path = path
        self.deviation = deviation
        self.are_pairs = False
        self.chunks: list[NDArray[np.float64]] = []
        """True and predicted numbers of each chunk, fp64 `[2, examples]`."""

    def add(self, examples: Sequence[Example], predictions: Sequence[NumberPrediction]) -> None:
        self.are_pairs |= are_pairs(examples)
        true = numeric_labels(examples, self.path)
        predicted = np.array([prediction.value for prediction in predictions])
        self.chunks.append(np.stack([true, predicted]))
        self.loss += float(np.square((predicted - true) / self.deviation).sum())
        self.count(predictions)

    def result(self, num_skipped: int = 0) -> NumberReport:
        true, predicted = np.concatenate(self.chunks, axis=1)
        noun = example_noun(is_pair=self.are_pairs)
        return NumberReport.of(true, predicted, noun=noun, **self.counts(num_skipped))


@dataclass(frozen=True)
class Regress(TextTask[NumberPrediction]):
    """Regression of a number on texts or pairs."""

    mean: float = field(default=0.0, compare=False)
    """Mean of the training labels. It is not stored, as a saved model gives numbers in the unit of
    the labels."""
    deviation: float = field(default=1.0, compare=False)
    """Standard deviation of the training labels. It is not stored, like the mean."""
    activation: Activation = "identity"
    """Function that is applied to the output, as the folder of a CrossEncoder (a model of
    sentence-transformers that compares two texts) names it."""
    teacher_activation: Activation = "identity"
    """The `activation` of the teacher, which distillation applies to the teacher's outputs."""

    titles = ("value", "text", "second text")  # of the columns of predictions
    name = "regress"  # of the command, and of the loss among a run's metrics
    baselines = NumberBaselines()
    are_classes_named = False  # the class numbers in a table of `datasets` are read as numbers
    target_phrase = "with numbers"  # follows the number of examples in messages
    settings = RegressSettings
    heads = ("regress",)
    cell_types: ClassVar = {"value": float}  # the column added to a table

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        """Restore the task from a folder of bertsmith, or from one of another library."""
        task = super().restore(loaded)
        if loaded.model.task_settings.get("task") == cls.name:
            stored = loaded.model.task_settings.get("activation")
            return replace(task, activation="sigmoid" if stored == "sigmoid" else "identity")
        folder = loaded.folder
        return replace(task, activation=read_activation(folder.files, folder.settings))

    @property
    def task_settings(self) -> dict[str, Any]:
        """The settings in config.json, among them the activation if it is not the identity."""
        stored = {} if self.activation == "identity" else {"activation": self.activation}
        return super().task_settings | stored

    def with_teacher_labels(self, teacher: Self) -> Self:
        """Return a copy that reads the outputs of a teacher, in distillation, as numbers."""
        return replace(self, teacher_activation=teacher.activation)

    @classmethod
    def check_train(cls, examples: Sequence[Example], settings: RegressSettings) -> None:
        check_numbers_vary(examples, settings.train)

    @classmethod
    def of_examples(cls, train: list[Example], settings: RegressSettings) -> Self:
        task = cls(windowing=settings.windowing, pairs=are_pairs(train))
        return task.with_train(train, settings.train)

    def with_train(self, train: Sequence[Example], path: Path) -> Self:
        """Return a copy that standardizes by the mean and deviation of these labels.

        Raises:
            InputError: a label is not a number, or the spread of labels is too small or large for
                fp32.
        """
        labels = numeric_labels(train, path)
        # Equal labels deviate by 0, by which nothing can be divided.
        deviation = float(labels.std()) if np.ptp(labels) > 0 else 1.0
        low, high = DEVIATION_RANGE
        if not low <= deviation <= high:
            raise InputError(
                f"{path}: the numbers deviate by {deviation:.3g} from their mean; allowed is "
                f"{low:g} to {high:g}. Write them in another unit."
            )
        mean = float(labels.mean())
        if deviation < MIN_STORED_SPREAD * abs(mean):
            rounded = round(mean, -math.floor(math.log10(deviation)))
            raise InputError(
                f"{path}: the numbers deviate by {deviation:.3g} from their mean, {rounded:.15g}, "
                "which is too little for the fp32 numbers of a saved model. Subtract "
                f"{rounded:.15g} from all of them, and add it to the predictions."
            )
        return replace(self, mean=mean, deviation=deviation)

    def check_held_out(self, examples: Sequence[Example], settings: RegressSettings) -> None:
        """Check that the labels of eval examples differ, as correlations need.

        Raises:
            InputError: all labels are the same number, or a label is not a number.
        """
        check_numbers_vary(examples, settings.eval)

    def notes(self, examples: Sequence[Example], encoded: EncodedExamples) -> list[str]:
        """Warn if the labels deviate so little from their mean that fp32 rounds predictions."""
        if self.deviation >= MIN_EXACT_SPREAD * abs(self.mean):
            return []
        return [
            f"the numbers deviate by {self.deviation:.3g} from their mean, {self.mean:.9g}, so "
            "fp32 rounds the predictions noticeably; to avoid it, subtract the mean from the labels"
        ]

    def continue_head(self, model: BertModel) -> None:
        """Convert a saved head, whose outputs have the labels' unit, to standardized labels."""
        layer = _last_layer(model)
        with torch.no_grad():
            layer.weight.copy_(layer.weight.double() / self.deviation)
            layer.bias.copy_((layer.bias.double() - self.mean) / self.deviation)

    @contextlib.contextmanager
    def as_saved(self, model: BertModel) -> Iterator[dict[str, Tensor]]:
        """Fold mean and deviation into the last layer while the block runs, to save the model.

        Yields the weights of that layer as they are in training, fp32, by their names. After the
        block the layer has these weights again.
        """
        layer = _last_layer(model)
        trained = {
            f"{HEAD_LAYER}.{name}": weight.clone() for name, weight in layer.state_dict().items()
        }
        with torch.no_grad():
            layer.weight.copy_(layer.weight.double() * self.deviation)
            layer.bias.copy_(layer.bias.double() * self.deviation + self.mean)
        try:
            yield trained
        finally:
            model.load_state_dict(trained, strict=False)

    def targets(self, examples: Sequence[Example]) -> NDArray[np.float32]:
        """Return standardized labels, fp32 `[examples]`."""
        # The labels were checked when they were read, so no error names the placeholder of a file.
        labels = numeric_labels(examples, CHECKED_EXAMPLES)
        return ((labels - self.mean) / self.deviation).astype(np.float32)

    def compute_loss(self, outputs: Tensor, batch: Batch) -> LossTerm:
        """Sum the squared error of standardized labels over texts.

        `correct` counts predictions whose error is at most `MAX_CLOSE_ERROR`. `outputs` are fp32
        `[sequences, 1]`.
        """
        logits = mean_over_rows(outputs, batch)
        squared_error, num_close = self._compare(logits, batch.targets["labels"])
        return LossTerm(sum=squared_error, correct=num_close, count=len(logits))

    def _compare(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sum of squared errors, and the number of those up to `MAX_CLOSE_ERROR`.

        `logits` `[texts, 1]` and `targets` `[texts]` are standardized.
        """
        is_close = (logits[:, 0] - targets).abs() <= MAX_CLOSE_ERROR
        return F.mse_loss(logits[:, 0], targets, reduction="sum"), is_close.sum()

    def compare_with_teacher(
        self, logits: Tensor, teacher_logits: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Compute the squared error; `temperature` does not apply to numbers.

        `logits` and `teacher_logits` are fp32 `[texts, 1]`. Those of the student are standardized
        numbers. Those of the teacher are numbers in the labels' unit, or the input of a sigmoid.
        """
        if self.teacher_activation == "sigmoid":
            teacher_logits = teacher_logits.sigmoid()
        return self._compare(logits, (teacher_logits[:, 0] - self.mean) / self.deviation)

    def prediction(
        self, outputs: NDArray[np.float32], is_truncated: bool, num_windows: int
    ) -> NumberPrediction:
        # In training the output is a standardized number. A restored task has the mean 0 and the
        # deviation 1, since the model gives numbers in the labels' unit.
        value = self.deviation * float(outputs[0]) + self.mean
        if self.activation == "sigmoid":
            value = float(sigmoid(np.asarray(value)))
        return NumberPrediction(value, is_truncated, num_windows)

    def accumulator(self, path: Path) -> NumberAccumulator:
        return NumberAccumulator(path, self.deviation)

    def outcome(self, example: Example, prediction: NumberPrediction) -> Outcome:
        gold = float(str(example.label))
        return Outcome(
            text=" | ".join(example.one_line()),
            gold=str(example.label),
            predicted=format_number(prediction.value),
            score=1.0 - abs(prediction.value - gold),  # 1 minus the distance, the score of numbers
            is_numeric=True,
        )


def _last_layer(model: BertModel) -> nn.Linear:
    head = model.heads["regress"]
    assert isinstance(head, ClassificationHead)
    return head.dense


def check_numbers_vary(examples: Sequence[Example], path: Path) -> None:
    """Check that the labels of examples are numbers, and not all the same.

    Raises:
        InputError: a label is not a number.
        ExamplesError: all numbers are the same, so there is nothing to learn or correlate.
    """
    if np.ptp(numeric_labels(examples, path)) == 0:
        raise ExamplesError(
            f"{path}: the number is {examples[0].label} in every row. Give examples with "
            "different ones."
        )


TASK = Regress  # imported by catalog.py, which names this module

"""Multi-label classification, as in `classify --multi-label`.

Each label is an independent yes or no, trained by binary cross entropy. A text gets the labels
whose probability reaches the threshold.
"""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.examples import Example, are_pairs, example_noun
from bertsmith.data.label_remarks import look_alike
from bertsmith.data.label_separator import check_label_separator
from bertsmith.data.labels import label_flags, label_names, label_set
from bertsmith.errors import ExamplesError, SettingError, option
from bertsmith.metrics.multi_label import LabelCounts, MultiLabelReport
from bertsmith.tasks.checked_examples import CHECKED_EXAMPLES
from bertsmith.tasks.inference import LoadedModel
from bertsmith.tasks.label_prediction import LabelsPrediction
from bertsmith.tasks.losses import BinaryLoss, binary_loss
from bertsmith.tasks.multi_label_baselines import MultiLabelBaselines
from bertsmith.tasks.probabilities import sigmoid
from bertsmith.tasks.row_means import mean_over_rows
from bertsmith.tasks.scoring import Outcome, PredictionCounts
from bertsmith.tasks.soft_targets import soft_binary_loss
from bertsmith.tasks.stored_settings import AllowedValue, check_stored_settings
from bertsmith.tasks.texts import LabelTask
from bertsmith.training.objective import LossTerm

MIN_PROBABILITY = 2.0**-54
"""Smallest probability in the loss; smaller ones count as this, so that the loss is finite. The
probability that a label is absent, 1 - p in fp64, is 0 or at least 2**-53, twice this number."""
ALLOWED_IN_MULTI_LABEL: Mapping[str, AllowedValue] = {
    "threshold": (
        lambda value: type(value) is float and 0 < value < 1,
        "a number above 0, below 1",
    ),
}
"""Settings in config.json that have fewer allowed values here than in other tasks, with these
values: the threshold is a probability, while that of question answering may be any number."""


class MultiLabelAccumulator(PredictionCounts):
    """Accumulator of the decisions for each label, and of the binary cross entropy."""

    metrics = ("accuracy", "micro_f1", "macro_f1")  # by which the best weights may be chosen

    def __init__(self, task: "MultiLabel", path: Path) -> None:
        self.task = task
        self.path = path
        self.are_pairs = False
        empty = np.zeros((0, len(task.labels)), dtype=np.bool_)
        self.decisions = LabelCounts.of(empty, empty)

    def add(self, examples: Sequence[Example], predictions: Sequence[LabelsPrediction]) -> None:
        task = self.task
        self.are_pairs |= are_pairs(examples)
        true = label_flags(examples, task.labels, task.label_separator, self.path)
        values = task.label_values  # predictions have labels of the type that they had in training
        predicted = np.array([[value in row.labels for value in values] for row in predictions])
        self.decisions += LabelCounts.of(true, predicted)
        probabilities = np.array([list(row.probabilities.values()) for row in predictions])
        prob_right = np.where(true, probabilities, 1 - probabilities)
        self.loss -= float(np.log(np.maximum(prob_right, MIN_PROBABILITY)).mean(1).sum())
        self.count(predictions)

    def result(self, num_skipped: int = 0) -> MultiLabelReport:
        noun = example_noun(is_pair=self.are_pairs)
        counts = self.counts(num_skipped)
        return MultiLabelReport.of(self.decisions, self.task.labels, noun=noun, **counts)


@dataclass(frozen=True)
class MultiLabel(LabelTask[LabelsPrediction]):
    """Multi-label classification of texts or pairs by `labels`."""

    loss: BinaryLoss = BinaryLoss()  # noqa: RUF009 - frozen
    label_separator: str = ","
    """Separator between the labels of a text in a file."""
    threshold: float = 0.5
    """Least probability of a predicted label."""
    label_columns: tuple[str, ...] | None = field(default=None, kw_only=True)
    """The names of the columns if labels were given as a matrix of 0 and 1; otherwise None."""

    titles = ("labels, with probabilities", "text", "second text")  # of the columns of predictions
    name = "classify"  # of the command, and of the loss among a run's metrics
    baselines = MultiLabelBaselines()
    heads: ClassVar[tuple[str, ...]] = ("multi_label",)
    cell_types: ClassVar = {"labels": str, "probabilities": str}  # columns added to a table
    is_multi_label = True
    probabilities = staticmethod(sigmoid)  # computed from logits
    stored = ("pairs", "label_separator", "threshold")  # fields that are kept in config.json

    def __post_init__(self) -> None:
        if not (isinstance(self.threshold, float) and 0 < self.threshold < 1):
            raise SettingError("threshold", self.threshold, "above 0, below 1")
        check_label_separator(self.label_separator)

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        """Restore the task from its folder.

        Raises:
            CheckpointError: a setting in config.json has a value that is not allowed.
        """
        check_stored_settings(loaded, ALLOWED_IN_MULTI_LABEL)
        names = loaded.model.task_settings.get("label_columns")
        label_columns = None  # also if config.json has a value of another type
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            label_columns = tuple(names)
        return replace(super().restore(loaded), label_columns=label_columns)

    @property
    def task_settings(self) -> dict[str, Any]:
        columns = self.label_columns
        return super().task_settings | ({} if columns is None else {"label_columns": list(columns)})

    @classmethod
    def check_train(cls, examples: Sequence[Example], settings: Any) -> None:
        """Check that an example has a label; `settings` are `ClassifySettings`.

        Raises:
            ExamplesError: none has one.
        """
        label_names(examples, settings.label_separator, settings.train)

    @classmethod
    def of_examples(cls, train: list[Example], settings: Any) -> Self:
        separator = settings.label_separator
        names = label_names(train, separator, settings.train)
        counts = label_flags(train, names, separator, settings.train).sum(0)
        return cls(
            labels=names,
            windowing=settings.windowing,
            loss=binary_loss(settings, names, counts, len(train)),
            label_separator=separator,
            threshold=settings.threshold,
            pairs=are_pairs(train),
        )

    def check_held_out(self, examples: Sequence[Example], settings: Any) -> None:
        """Check that eval examples have labels, all of which occur in training.

        Raises:
            ExamplesError: a label does not occur in training, or no example has a label.
        """
        flags = label_flags(examples, self.labels, self.label_separator, settings.eval)
        # `score_key` is the score by which the best weights are chosen.
        if not flags.any() and settings.score_key != "accuracy":
            raise ExamplesError(
                f"{settings.eval}: no text has a label, so F1 has nothing to score. Give texts "
                f"with labels, or {option('metric', 'accuracy')}."
            )

    def labels_of(self, example: Example) -> Collection[str]:
        return label_set(example, self.label_separator)

    def targets(self, examples: Sequence[Example]) -> NDArray[np.float32]:
        """Return labels as flags, fp32 0 or 1 `[examples, labels]`."""
        # The labels were checked when they were read, so no error names the placeholder of a file.
        flags = label_flags(examples, self.labels, self.label_separator, CHECKED_EXAMPLES)
        return flags.astype(np.float32)

    def compute_loss(self, outputs: Tensor, batch: Batch) -> LossTerm:
        """Compute binary cross entropy, its mean over labels summed over texts.

        `outputs` are fp32 logits `[sequences, labels]`. A text counts as correct if exactly the
        right labels are predicted.
        """
        logits = mean_over_rows(outputs, batch)  # over the windows of a long text
        flags = batch.targets["labels"]
        is_right = ((logits.sigmoid() >= self.threshold) == (flags > 0)).all(1)
        return LossTerm(self.loss.sum(logits, flags), is_right.sum(), len(logits))

    def compare_with_teacher(
        self, logits: Tensor, teacher_logits: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Compute the divergence of label probabilities, averaged over labels.

        `logits` and `teacher_logits` are fp32 `[texts, labels]`. A text counts as agreement if
        student and teacher decide alike on all labels.
        """
        threshold_logit = math.log(self.threshold / (1 - self.threshold))
        return soft_binary_loss(logits, teacher_logits, temperature, threshold_logit)

    def prediction(
        self, outputs: NDArray[np.float64], is_truncated: bool, num_windows: int
    ) -> LabelsPrediction:
        """Decide on each label of a text; `outputs` are the probabilities, fp64 `[labels]`."""
        values = self.label_values
        labels = tuple(values[i] for i in np.flatnonzero(outputs >= self.threshold))
        probabilities = dict(zip(values, outputs.tolist(), strict=True))
        return LabelsPrediction(labels, probabilities, is_truncated, num_windows)

    def cells(self, prediction: LabelsPrediction) -> dict[str, Any]:
        """Join labels by the separator of the training file, and probabilities as well.

        If a label contains the separator, the labels are written as a JSON list instead.
        """
        separator = self.label_separator
        labels = prediction.labels
        names = prediction.names
        probabilities = [f"{prediction.probabilities[label]:.4f}" for label in labels]
        can_join = not any(separator in name for name in names)
        joined = separator.join(names) if can_join else json.dumps(labels, ensure_ascii=False)
        return {"labels": joined, "probabilities": separator.join(probabilities)}

    def accumulator(self, path: Path) -> MultiLabelAccumulator:
        return MultiLabelAccumulator(self, path)

    def notes(self, examples: Sequence[Example], encoded: EncodedExamples) -> list[str]:
        """Warn if labels look alike."""
        note = look_alike(self.labels)
        return [] if note is None else [note]

    def outcome(self, example: Example, prediction: LabelsPrediction) -> Outcome:
        """Score the fraction of labels that are decided right.

        The confidence is that of the least sure decision.
        """
        (true,) = label_flags([example], self.labels, self.label_separator, CHECKED_EXAMPLES)
        gold = tuple(name for name, flag in zip(self.labels, true, strict=True) if flag)
        predicted = prediction.names
        fraction_right = np.mean([(name in gold) == (name in predicted) for name in self.labels])
        probabilities = prediction.probabilities
        # With a threshold of 0.9, a label of probability 0.8 is decided to be absent; the
        # confidence of this decision is 0.2.
        confidence = min(
            p if label in prediction.labels else 1 - p for label, p in probabilities.items()
        )
        separator = f"{self.label_separator} "
        return Outcome(
            text=" | ".join(example.one_line()),
            gold=separator.join(gold) or "–",
            predicted=separator.join(predicted) or "–",
            score=float(fraction_right),
            confidence=confidence,
        )

"""Multi-label classification, as in `classify --multi-label`.

Each label is a decision of its own, trained by binary cross entropy; a text has the labels whose
probability reaches the threshold.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.examples import (
    Columns,
    Example,
    ExampleReader,
    are_pairs,
    read_examples,
    stratified_sample,
)
from bertsmith.data.labels import label_flags, label_names
from bertsmith.data.text_files import ExampleSource
from bertsmith.data.windows import Windowing
from bertsmith.errors import InputError
from bertsmith.metrics.multi_label import LabelCounts, MultiLabelReport
from bertsmith.model.bert import BertModel
from bertsmith.tasks.example_objective import mean_over_rows
from bertsmith.tasks.inference import LoadedModel
from bertsmith.tasks.logits import sigmoid
from bertsmith.tasks.losses import BinaryLoss
from bertsmith.tasks.scoring import Outcome, PredictionCounts
from bertsmith.tasks.settings import FinetuneSettings, Sources
from bertsmith.tasks.soft_targets import soft_binary_loss
from bertsmith.tasks.task import TaskDataset
from bertsmith.tasks.texts import TextTask
from bertsmith.training.objective import LossTerm

LEAST = 2.0**-54
"""Lower limit of a probability in the loss, where fp64 cannot tell its complement from 1."""


@dataclass(frozen=True, slots=True)
class LabelsPrediction:
    """The labels of a text, and the probability of every label."""

    labels: tuple[str, ...]
    probabilities: Mapping[str, float]
    is_truncated: bool = False
    """Whether the text was longer than the model reads, so that its end was ignored."""
    num_windows: int = 1
    """Number of windows in which the model read the text."""

    @property
    def answer(self) -> tuple[str, ...]:
        return self.labels

    def to_json(self) -> dict[str, Any]:
        return {
            "labels": list(self.labels),
            "probabilities": dict(self.probabilities),
            "is_truncated": self.is_truncated,
            "num_windows": self.num_windows,
        }

    def line(self, example: Example) -> str:
        """Format labels with their probabilities, and the text, separated by tabs."""
        found = [f"{name} {self.probabilities[name]:.4f}" for name in self.labels]
        return "\t".join([", ".join(found) or "–", *example.one_line()])


class MultiLabelAccumulator(PredictionCounts):
    """Accumulator of decisions per label."""

    def __init__(self, task: "MultiLabel", place: Path) -> None:
        self.task = task
        self.place = place
        empty = np.zeros((0, len(task.labels)), dtype=np.bool_)
        self.decisions = LabelCounts.of(empty, empty)

    def add(self, examples: Sequence[Example], predictions: Sequence[LabelsPrediction]) -> None:
        task = self.task
        true = label_flags(examples, task.labels, task.label_separator, self.place)
        found = np.array([[name in row.labels for name in task.labels] for row in predictions])
        self.decisions += LabelCounts.of(true, found)
        likely = np.array([list(row.probabilities.values()) for row in predictions])
        right = np.where(true, likely, 1 - likely)
        self.loss -= float(np.log(np.maximum(right, LEAST)).mean(1).sum())
        self.count(predictions)

    def figures(self) -> dict[str, float]:
        """Compute mean binary cross entropy and the selectable scores."""
        return {
            "loss": self.loss / self.decisions.num_texts,
            "accuracy": self.decisions.subset_accuracy,
            "micro_f1": self.decisions.micro_f1,
            "macro_f1": self.decisions.macro_f1,
        }

    def result(self, num_skipped: int = 0) -> MultiLabelReport:
        return MultiLabelReport.of(self.decisions, self.task.labels, **self.counts(num_skipped))


@dataclass(frozen=True)
class MultiLabel(TextTask[LabelsPrediction]):
    """Multi-label classification of texts or pairs by `labels`."""

    label_separator: str = ","
    threshold: float = 0.5
    loss: BinaryLoss = BinaryLoss()  # noqa: RUF009 - frozen

    titles = ("labels, with probabilities", "text", "second text")
    name: ClassVar[str] = "classify"
    heads: ClassVar[tuple[str, ...]] = ("multi_label",)
    settings: ClassVar = FinetuneSettings

    @classmethod
    def read(cls, settings: Any, sources: Sources | None = None) -> TaskDataset[Example]:
        """Read both files.

        Raises:
            InputError: an eval label does not occur in training.
        """
        columns, separator = settings.columns, settings.label_separator
        train_source, eval_source = sources or settings.sources
        train, num_skipped = read_examples(
            train_source, columns, limit=settings.limit, empty_labels=True
        )
        if settings.sample is not None:
            train = stratified_sample(train, settings.sample, settings.seed)
        names = label_names(train, separator, settings.train)
        pairs = are_pairs(train)
        held_out, num_held_out_skipped = read_examples(
            eval_source, columns, limit=settings.eval_limit, empty_labels=True, pairs=pairs
        )
        flags = label_flags(held_out, names, separator, settings.eval)
        if not flags.any() and settings.figure != "accuracy":
            raise InputError(
                f"{settings.eval}: no text has a label, so F1 has nothing to score. Give texts "
                "with labels, or --metric accuracy."
            )
        counts = label_flags(train, names, separator, settings.train).sum(0)
        loss = settings.binary_loss(names, counts, len(train))
        task = cls(names, settings.windowing, separator, settings.threshold, loss, pairs=pairs)
        return TaskDataset(task, train, held_out, num_skipped, num_held_out_skipped)

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        """Restore the task from a folder's labels, threshold, separator and pairs."""
        names = tuple(name for _, name in sorted(loaded.model.id2label.items()))
        settings = loaded.model.task_settings
        fields = ("label_separator", "threshold", "pairs")
        known = {name: settings[name] for name in fields if name in settings}
        return cls(names, Windowing.of_settings(settings), **known)

    def reader(
        self, source: ExampleSource, columns: Columns | None, *, labelled: bool
    ) -> ExampleReader:
        """Return the rows of a table; texts may have no label."""
        return ExampleReader(
            source, columns, labelled=labelled, empty_labels=True, pairs=self.pairs
        )

    @property
    def task_settings(self) -> dict[str, Any]:
        """The settings of `TextTask`, with label separator and threshold."""
        return {
            **super().task_settings,
            "label_separator": self.label_separator,
            "threshold": self.threshold,
        }

    def targets(self, examples: Sequence[Example]) -> Mapping[str, NDArray[Any]]:
        """Return `labels`, fp32 0 or 1 `[examples, labels]`."""
        flags = label_flags(examples, self.labels, self.label_separator, Path("examples"))
        return {"labels": flags.astype(np.float32)}

    def compute_loss(self, outputs: Tensor, batch: Batch) -> LossTerm:
        """Compute binary cross entropy, its mean over labels summed over texts.

        `correct` counts texts with exactly the right labels.
        """
        logits, labels = mean_over_rows(outputs, batch), batch.targets["labels"]
        is_right = ((logits.sigmoid() >= self.threshold) == (labels > 0)).all(1)
        return LossTerm(self.loss.sum(logits, labels), is_right.sum(), len(labels))

    def distillation_loss(
        self, outputs: Tensor, taught: Tensor, batch: Batch, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Compute the divergence of label probabilities, averaged over labels."""
        logits, wanted = (mean_over_rows(each, batch) for each in (outputs, taught))
        border = math.log(self.threshold / (1 - self.threshold))
        return soft_binary_loss(logits, wanted, temperature, border)

    def with_teacher_labels(self, teacher: Self) -> Self:
        """Return a copy with the teacher's labels; its own keep their weights."""
        loss = self.loss.relabelled(self.labels, teacher.labels)
        return replace(super().with_teacher_labels(teacher), loss=loss)

    def predict(
        self, model: BertModel, encoded: EncodedExamples, examples: Sequence[Example]
    ) -> list[LabelsPrediction]:
        likely = sigmoid(self.logits(model, encoded))
        return [
            LabelsPrediction(
                tuple(self.labels[i] for i in np.flatnonzero(row >= self.threshold)),
                dict(zip(self.labels, row.tolist(), strict=True)),
                num_cut > 0,
                num_windows,
            )
            for row, num_cut, num_windows in zip(
                likely, encoded.num_cut, encoded.num_rows, strict=True
            )
        ]

    def accumulator(self, place: Path) -> MultiLabelAccumulator:
        return MultiLabelAccumulator(self, place)

    def fold_stratum(self, example: Example) -> str | None:
        return example.label

    def outcome(self, example: Example, prediction: LabelsPrediction) -> Outcome:
        """Score the share of correct decisions, with the lowest confidence."""
        (true,) = label_flags([example], self.labels, self.label_separator, Path("examples"))
        gold = tuple(name for name, flag in zip(self.labels, true, strict=True) if flag)
        right = np.mean([(name in gold) == (name in prediction.labels) for name in self.labels])
        likely = prediction.probabilities
        # Above a threshold of 0.9, a label with 0.8 is decided to be absent, with confidence 0.2.
        sure = min(p if name in prediction.labels else 1 - p for name, p in likely.items())
        shown = f"{self.label_separator} ".join
        return Outcome(" | ".join(example.one_line()), shown(gold) or "–",
                       shown(prediction.labels) or "–", float(right), sure)  # fmt: skip

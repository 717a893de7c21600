"""Text classification with one label per text or pair.

The model is BERT's encoder and pooler with a linear layer on [CLS] (Devlin et al. 2019, section
4.1), trained by cross entropy. multi_label_classification.py classifies texts that may have several
labels.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.examples import Example, are_pairs, example_noun
from bertsmith.data.label_remarks import (
    contradictions,
    labels_seen_once,
    look_alike,
    mixed_labels,
    no_label,
    several_in_one,
)
from bertsmith.data.labels import check_classes, class_names, class_numbers
from bertsmith.data.source_columns import type_of_column
from bertsmith.metrics.class_report import ClassReport, summarize
from bertsmith.metrics.classification import confusion_matrix
from bertsmith.tasks.checked_examples import CHECKED_EXAMPLES
from bertsmith.tasks.class_baselines import ClassBaselines
from bertsmith.tasks.cross_encoder import check_softmax
from bertsmith.tasks.inference import LoadedModel
from bertsmith.tasks.label_prediction import ClassPrediction
from bertsmith.tasks.losses import ClassLoss, class_loss
from bertsmith.tasks.multi_label_classification import MultiLabel
from bertsmith.tasks.probabilities import softmax64
from bertsmith.tasks.row_means import mean_over_rows
from bertsmith.tasks.scoring import Outcome, PredictionCounts
from bertsmith.tasks.settings.classify import ClassifySettings, Metric
from bertsmith.tasks.settings.finetune import Sources
from bertsmith.tasks.soft_targets import soft_class_loss
from bertsmith.tasks.task import TaskDataset
from bertsmith.tasks.texts import LabelTask
from bertsmith.training.objective import LossTerm


class ClassAccumulator(PredictionCounts):
    """Accumulator of the confusion matrix, and of the cross entropy.

    `loss`, which starts at 0, and the counts of predictions are those of the base class.
    """

    metrics = get_args(Metric)  # names of scores by which the best weights may be chosen

    def __init__(self, names: Sequence[str], path: Path) -> None:
        self.names = names
        self.path = path
        self.are_pairs = False
        self.confusion = np.zeros((len(names), len(names)), dtype=np.int64)

    def add(self, examples: Sequence[Example], predictions: Sequence[ClassPrediction]) -> None:
        number_of_name = {name: number for number, name in enumerate(self.names)}
        self.are_pairs |= are_pairs(examples)
        labels = class_numbers(examples, self.names, self.path)
        # `name` is the label as a string, `label` has the type of the training labels.
        predicted = np.array([number_of_name[row.name] for row in predictions], dtype=np.int64)
        self.confusion += confusion_matrix(labels, predicted, len(self.names))
        probabilities = np.array([list(row.probabilities.values()) for row in predictions])
        prob_right = probabilities[np.arange(len(labels)), labels]
        # A probability that was rounded to 0 has a finite loss.
        self.loss -= float(np.log(np.maximum(prob_right, np.finfo(np.float64).tiny)).sum())
        self.count(predictions)

    def result(self, num_skipped: int = 0) -> ClassReport:
        noun = example_noun(is_pair=self.are_pairs)
        return summarize(self.confusion, self.names, noun=noun, **self.counts(num_skipped))


@dataclass(frozen=True)
class Classify(LabelTask[ClassPrediction]):
    """Classification of texts or pairs by `labels`."""

    loss: ClassLoss = ClassLoss()  # noqa: RUF009 - frozen
    """The loss, with the class weights that the user asked for."""

    name = "classify"  # of the command, and of the loss among a run's metrics
    baselines = ClassBaselines()
    settings = ClassifySettings
    heads: ClassVar[tuple[str, ...]] = ("classify", "multi_label")  # a model has one of them
    probabilities = staticmethod(softmax64)  # computed from logits
    compare_with_teacher = staticmethod(soft_class_loss)  # the loss of distillation

    @classmethod
    def read(
        cls, settings: ClassifySettings, sources: Sources | None = None
    ) -> TaskDataset[Example]:
        """Read the examples of a run; the task is `MultiLabel` if texts may have several labels.

        Raises:
            InputError: a file cannot be read, or an eval label does not occur in training.
        """
        if settings.multi_label:
            return MultiLabel.read(settings, sources)
        return super().read(settings, sources)

    @classmethod
    def check_train(cls, examples: Sequence[Example], settings: ClassifySettings) -> None:
        check_classes(examples, settings.train)

    @classmethod
    def of_examples(cls, train: list[Example], settings: ClassifySettings) -> Self:
        names = class_names(train, settings.train)
        counts = np.bincount(class_numbers(train, names, settings.train), minlength=len(names))
        return cls(
            labels=names,
            windowing=settings.windowing,
            loss=class_loss(settings, names, counts),
            pairs=are_pairs(train),
        )

    def check_held_out(self, examples: Sequence[Example], settings: ClassifySettings) -> None:
        class_numbers(examples, self.labels, settings.eval)  # an error for an unknown label

    @property
    def cell_types(self) -> Mapping[str, Any]:
        """The label, in the type that labels had in training, and its probability."""
        return {"label": type_of_column(self.label_values), "probability": float}

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        """Restore the task from its folder; a multi-label head has the task `MultiLabel`."""
        if "multi_label" in loaded.model.heads:
            return MultiLabel.restore(loaded)  # type: ignore[return-value]
        # A folder of another library may ask for another function of the logits than a softmax.
        if loaded.model.task_settings.get("task") != cls.name:
            check_softmax(loaded.folder.files, loaded.folder.settings)
        return super().restore(loaded)

    def labels_of(self, example: Example) -> Collection[str]:
        return (example.label or "",)

    def targets(self, examples: Sequence[Example]) -> NDArray[np.int64]:
        """Return the indices of the labels, int64 `[examples]`."""
        # The labels were checked when they were read, so no error names the placeholder of a file.
        return class_numbers(examples, self.labels, CHECKED_EXAMPLES)

    def compute_loss(self, outputs: Tensor, batch: Batch) -> LossTerm:
        """Compute cross entropy, summed over texts, from fp32 logits `[sequences, labels]`."""
        logits = mean_over_rows(outputs, batch)  # over the windows of a long text
        labels = batch.targets["labels"]
        num_right = (logits.argmax(-1) == labels).sum()
        return LossTerm(self.loss.sum(logits, labels), num_right, len(logits))

    def prediction(
        self, outputs: NDArray[np.float64], is_truncated: bool, num_windows: int
    ) -> ClassPrediction:
        """Choose the likeliest label of a text; `outputs` are probabilities, fp64 `[labels]`."""
        values = self.label_values
        probabilities = dict(zip(values, outputs.tolist(), strict=True))
        return ClassPrediction(values[outputs.argmax()], probabilities, is_truncated, num_windows)

    def accumulator(self, path: Path) -> ClassAccumulator:
        return ClassAccumulator(self.labels, path)

    def notes(self, examples: Sequence[Example], encoded: EncodedExamples) -> list[str]:
        """Warn of labels that look like mistakes, contradict each other, or are rare."""
        notes = (
            mixed_labels(examples),
            look_alike(self.labels),
            no_label(self.labels),
            several_in_one(self.labels),
            contradictions(examples),
            labels_seen_once(examples),
        )
        return [note for note in notes if note is not None]

    def outcome(self, example: Example, prediction: ClassPrediction) -> Outcome:
        (number,) = class_numbers([example], self.labels, CHECKED_EXAMPLES)
        gold = self.labels[number]
        return Outcome(
            text=" | ".join(example.one_line()),
            gold=gold,
            predicted=prediction.name,
            score=float(prediction.name == gold),
            confidence=prediction.probability,
        )


TASK = Classify  # imported by catalog.py, which names this module

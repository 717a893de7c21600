"""Text classification with one label per text or pair.

The model is BERT's encoder and pooler with a linear layer on [CLS] (paper, section 4.1), trained by
cross entropy. Several labels per text are the task of multi_label.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.examples import (
    Columns,
    Example,
    are_pairs,
    read_examples,
    stratified_sample,
)
from bertsmith.data.labels import class_names, class_numbers, mixed_labels
from bertsmith.data.windows import Windowing
from bertsmith.errors import ConfigError
from bertsmith.metrics.class_report import ClassReport, summarize
from bertsmith.metrics.classification import confusion_matrix
from bertsmith.model.bert import BertModel
from bertsmith.system.compute import Advanced
from bertsmith.tasks.example_objective import mean_over_rows
from bertsmith.tasks.inference import LoadedModel
from bertsmith.tasks.logits import softmax64
from bertsmith.tasks.losses import ClassLoss, LossSettings
from bertsmith.tasks.multi_label_classification import MultiLabel
from bertsmith.tasks.scoring import Outcome, PredictionCounts
from bertsmith.tasks.settings import Sources, WindowSettings
from bertsmith.tasks.soft_targets import soft_class_loss
from bertsmith.tasks.task import TaskDataset
from bertsmith.tasks.texts import TextTask
from bertsmith.training.objective import LossTerm

Metric = Literal["accuracy", "macro_f1", "micro_f1", "matthews_correlation"]


@dataclass(frozen=True)
class ClassifySettings(LossSettings, WindowSettings):
    """Settings of `finetune classify`."""

    metric: Metric | None = None  # type: ignore[assignment]
    """Score by which the best weights are chosen: accuracy, the share of texts with the right label
    (with --multi-label: with exactly the right ones); macro_f1, the mean F1 of the classes, in
    which rare classes count as much as frequent ones; micro_f1, F1 over all decisions; or
    matthews_correlation, the correlation with the right labels, in which guessing gets 0. By
    default accuracy, with --multi-label micro_f1."""
    columns: Columns = field(default_factory=Columns)
    sample: Advanced[int | None] = None
    """Number of rows of --train to use, drawn at random so that each label keeps its share; all by
    default."""
    multi_label: bool = False
    """Multi-label classification: a text may have several labels, or none; each label is a decision
    of its own."""
    label_separator: Advanced[str] = ","
    """Separator between the labels of a text, with --multi-label. A JSON list needs none."""
    threshold: Advanced[float] = 0.5
    """Least probability of a predicted label, with --multi-label."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_positive("sample")
        if not 0 < self.threshold < 1:
            raise ConfigError(f"--threshold: found {self.threshold}; allowed is above 0, below 1.")
        if not self.label_separator:
            raise ConfigError("--label-separator: found nothing. Give a character, such as ,")
        allowed = ("accuracy", "macro_f1", "micro_f1") if self.multi_label else get_args(Metric)
        if self.figure not in allowed:
            raise ConfigError(f"--metric: found {self.metric}; allowed are {', '.join(allowed)}.")

    @property
    def figure(self) -> str:
        """The metric, or the default one."""
        return self.metric or ("micro_f1" if self.multi_label else "accuracy")


@dataclass(frozen=True, slots=True)
class ClassPrediction:
    """The likeliest label of a text, and the probability of every label."""

    label: str
    probabilities: Mapping[str, float]
    is_truncated: bool = False
    """Whether the text was longer than the model reads, so that its end was ignored."""
    num_windows: int = 1
    """Number of windows in which the model read the text."""

    @property
    def probability(self) -> float:
        """The probability of `label`, from 0 to 1."""
        return self.probabilities[self.label]

    @property
    def answer(self) -> str:
        return self.label

    def to_json(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "probability": self.probability,
            "probabilities": dict(self.probabilities),
            "is_truncated": self.is_truncated,
            "num_windows": self.num_windows,
        }

    def line(self, example: Example) -> str:
        """Format label, probability and text, separated by tabs."""
        return "\t".join([self.label, f"{self.probability:.4f}", *example.one_line()])


class ClassAccumulator(PredictionCounts):
    """Accumulator of a confusion matrix."""

    def __init__(self, names: Sequence[str], place: Path) -> None:
        self.names = names
        self.place = place
        self.confusion = np.zeros((len(names), len(names)), dtype=np.int64)

    def add(self, examples: Sequence[Example], predictions: Sequence[ClassPrediction]) -> None:
        numbers = {name: number for number, name in enumerate(self.names)}
        labels = class_numbers(examples, self.names, self.place)
        predicted = np.array([numbers[row.label] for row in predictions], dtype=np.int64)
        self.confusion += confusion_matrix(labels, predicted, len(self.names))
        right = [
            row.probabilities[str(e.label)] for e, row in zip(examples, predictions, strict=True)
        ]
        self.loss -= float(np.log(np.maximum(right, np.finfo(np.float64).tiny)).sum())
        self.count(predictions)

    def figures(self) -> dict[str, float]:
        """Compute mean cross entropy and the scores of `Metric`."""
        report = self.result()
        return {
            "loss": self.loss / report.num_texts,
            "accuracy": report.accuracy,
            "macro_f1": report.macro_f1,
            "micro_f1": report.micro_f1,
            "matthews_correlation": report.matthews_correlation,
        }

    def result(self, num_skipped: int = 0) -> ClassReport:
        return summarize(self.confusion, self.names, **self.counts(num_skipped))


@dataclass(frozen=True)
class Classify(TextTask[ClassPrediction]):
    """Classification of texts or pairs by `labels`."""

    loss: ClassLoss = ClassLoss()  # noqa: RUF009 - frozen

    name: ClassVar[str] = "classify"
    description: ClassVar[str] = """Teach a BERT to sort texts into your classes.

Takes a pre-trained model and two files of labelled texts: one to learn from, one to score by. A
label may be any word or number. The result is a folder that `bertsmith evaluate`, `bertsmith
predict` and Hugging Face's transformers open."""
    settings: ClassVar = ClassifySettings
    heads: ClassVar[tuple[str, ...]] = ("classify", "multi_label")

    @classmethod
    def read(
        cls, settings: ClassifySettings, sources: Sources | None = None
    ) -> TaskDataset[Example]:
        """Read both files.

        Raises:
            InputError: an eval label does not occur in training.
        """
        if settings.multi_label:
            return MultiLabel.read(settings, sources)
        columns = settings.columns
        train_source, eval_source = sources or settings.sources
        train, num_skipped = read_examples(train_source, columns, limit=settings.limit)
        if settings.sample is not None:
            train = stratified_sample(train, settings.sample, settings.seed)
        names = class_names(train, settings.train)
        counts = np.bincount(class_numbers(train, names, settings.train), minlength=len(names))
        pairs = are_pairs(train)
        held_out, num_held_out_skipped = read_examples(
            eval_source, columns, limit=settings.eval_limit, pairs=pairs
        )
        class_numbers(held_out, names, settings.eval)
        return TaskDataset(
            cls(names, settings.windowing, settings.loss(names, counts), pairs=pairs),
            train,
            held_out,
            num_skipped,
            num_held_out_skipped,
        )

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        """Restore the task from labels and settings: `MultiLabel` for a multi-label head."""
        model = loaded.model
        if "multi_label" in model.heads:
            return MultiLabel.restore(loaded)  # type: ignore[return-value]
        names = tuple(name for _, name in sorted(model.id2label.items()))
        settings = model.task_settings
        return cls(names, Windowing.of_settings(settings), pairs=settings.get("pairs"))

    def targets(self, examples: Sequence[Example]) -> Mapping[str, NDArray[Any]]:
        """Return `labels`, int64 `[examples]`."""
        return {"labels": class_numbers(examples, self.labels, Path("examples"))}

    def compute_loss(self, outputs: Tensor, batch: Batch) -> LossTerm:
        """Sum the loss over the texts of the batch."""
        logits = mean_over_rows(outputs, batch)
        labels = batch.targets["labels"]
        return LossTerm(
            sum=self.loss.sum(logits, labels),
            correct=(logits.argmax(-1) == labels).sum(),
            count=len(labels),
        )

    def distillation_loss(
        self, outputs: Tensor, taught: Tensor, batch: Batch, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Compute the divergence of the labels' probabilities."""
        logits, wanted = (mean_over_rows(each, batch) for each in (outputs, taught))
        return soft_class_loss(logits, wanted, temperature)

    def with_teacher_labels(self, teacher: Self) -> Self:
        """Return a copy with the teacher's labels; its own keep their weights."""
        loss = self.loss.relabelled(self.labels, teacher.labels)
        return replace(super().with_teacher_labels(teacher), loss=loss)

    def predict(
        self, model: BertModel, encoded: EncodedExamples, examples: Sequence[Example]
    ) -> list[ClassPrediction]:
        rows = softmax64(self.logits(model, encoded))
        return [
            ClassPrediction(
                label=self.labels[row.argmax()],
                probabilities=dict(zip(self.labels, row.tolist(), strict=True)),
                is_truncated=num_cut > 0,
                num_windows=num_windows,
            )
            for row, num_cut, num_windows in zip(
                rows, encoded.num_cut, encoded.num_rows, strict=True
            )
        ]

    def accumulator(self, place: Path) -> ClassAccumulator:
        return ClassAccumulator(self.labels, place)

    def notes(self, examples: Sequence[Example], encoded: EncodedExamples) -> list[str]:
        """Warn if labels mix numbers and names."""
        note = mixed_labels(examples)
        return [] if note is None else [note]

    def fold_stratum(self, example: Example) -> str | None:
        return example.label

    def outcome(self, example: Example, prediction: ClassPrediction) -> Outcome:
        """Score 1 for the right label, 0 for another."""
        return Outcome(
            text=" | ".join(example.one_line()),
            gold=str(example.label),
            predicted=prediction.label,
            score=float(prediction.label == example.label),
            confidence=prediction.probability,
        )


TASK = Classify

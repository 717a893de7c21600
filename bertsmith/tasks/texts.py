"""The common base of tasks over texts and pairs of texts: classification and regression.

A long text is read in windows, overlapping parts, each a row of tokens. Their logits are averaged
in training as in prediction, so that the loss is computed on the logits of the prediction.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.columns import Columns
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.examples import Example, ExampleReader
from bertsmith.data.label_values import LabelKind, label_values
from bertsmith.data.sampling import stratified_sample
from bertsmith.data.table_rows import with_class_numbers, with_classes_of
from bertsmith.data.text_files import ExampleSource
from bertsmith.data.training_columns import TrainingColumns
from bertsmith.data.windowing import Windowing
from bertsmith.data.windows import encode_windowed
from bertsmith.errors import InputError, option
from bertsmith.model.bert import BertModel
from bertsmith.tasks.cross_encoder import is_cross_encoder
from bertsmith.tasks.inference import LoadedModel
from bertsmith.tasks.logits import sequence_logits
from bertsmith.tasks.losses import LabelLoss
from bertsmith.tasks.prediction import text_example
from bertsmith.tasks.protocols import PredictionT
from bertsmith.tasks.row_means import mean_over_rows
from bertsmith.tasks.task import Task
from bertsmith.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class TextTask(Task[Example, PredictionT]):
    """A task with a few logits per text or pair from the pooler."""

    labels: tuple[str, ...] = ()
    """Names of the labels; empty for a task without."""
    windowing: Windowing = Windowing()  # noqa: RUF009 - frozen
    """Treatment of long texts: windows, or a cut."""
    pairs: bool | None = field(default=None, kw_only=True)
    """Whether the training examples were pairs of texts; None where that is not known."""
    trained: TrainingColumns = field(default_factory=TrainingColumns, kw_only=True, compare=False)
    """The columns that the model was trained on, which it looks for in other files."""

    pipeline = "text-classification"
    example_type = Example
    fields = ("text", "pair")  # the keys of an example that is given as a dictionary
    columns = Columns  # the options for reading a file
    rows_are_windows = True  # training may drop some windows of a very long text
    is_multi_label: ClassVar[bool] = False
    """Whether a text may have no label, or several."""
    are_classes_named: ClassVar[bool] = True
    """Whether labels are names of classes. If so, the class numbers in a table of Hugging Face's
    `datasets` are read as the names that the table gives them."""
    stored: ClassVar[tuple[str, ...]] = ("pairs",)  # the fields that are kept in config.json

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        """Restore the task from its folder; a CrossEncoder of sentence-transformers reads pairs."""
        task = super().restore(loaded)
        folder = loaded.folder
        # A training of bertsmith stores whether its examples were pairs.
        is_of_other_library = "pairs" not in loaded.model.task_settings
        if is_of_other_library and is_cross_encoder(folder.files, folder.settings):
            return replace(task, pairs=True)
        return task

    def reader(
        self, source: ExampleSource, columns: Columns | None, *, labelled: bool
    ) -> ExampleReader:
        """Open the rows of a table; the model's training decides whether they are pairs.

        `labelled` says whether to read labels, too. `columns` of None stands for the defaults.

        Raises:
            InputError: `columns` names a second text, but the model was trained on single texts.
        """
        if self.pairs is False and columns is not None and columns.pair_column is not None:
            raise InputError(
                f"{option('pair_column')}: found '{columns.pair_column}', but this model was "
                "trained on single texts. Leave it out."
            )
        label_column = None if columns is None else columns.label_column
        if self.are_classes_named:
            source = with_classes_of(source, self.labels, label_column)
        else:
            source = with_class_numbers(source)
        return ExampleReader(
            source,
            columns,
            labelled=labelled,
            is_multi_label=self.is_multi_label,
            pairs=self.pairs,
            trained=self.trained,
            # Numbered classes of a Parquet file are read as numbers if these labels are numbers.
            compared_labels=self.labels if self.are_classes_named else None,
        )

    def example(self, record: Mapping[str, Any]) -> Example:
        """Build an example from the fields `text` and, for a model of pairs, `pair`.

        Raises:
            InputError: a field is missing or no string, or the model reads no pairs, or only pairs.
        """
        example = text_example(record)
        if self.pairs and example.pair is None:
            raise InputError(
                "found 1 text, but this model reads a text and its pair. Give both: [(a, b)]."
            )
        if self.pairs is False and example.pair is not None:
            raise InputError(
                "found a text and its pair, but this model was trained on single texts. Give a "
                "list of texts: [a, b]."
            )
        return example

    @property
    def texts_per_example(self) -> int:
        """The number of texts that make an example: two for a model of pairs, else one."""
        return 2 if self.pairs else 1

    @abstractmethod
    def targets(self, examples: Sequence[Example]) -> NDArray[Any]:
        """Return the labels of examples, `[examples, ...]`, in the dtype that the loss takes."""

    @abstractmethod
    def compare_with_teacher(
        self, logits: Tensor, teacher_logits: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Compute the distillation loss, summed over texts, and the number of agreeing predictions.

        `logits` and `teacher_logits` are fp32 `[texts, outputs]`; both results are scalars.
        """

    @staticmethod
    def probabilities(logits: NDArray[np.float32]) -> NDArray[Any]:
        """Convert fp32 logits `[examples, outputs]` to probabilities in this shape.

        By default, as in regression, the logits are the predicted numbers and stay as they are.
        """
        return logits

    @abstractmethod
    def prediction(
        self, outputs: NDArray[Any], is_truncated: bool, num_windows: int
    ) -> PredictionT:
        """Build the prediction of one text from its row of `probabilities`, `[outputs]`."""

    def encode(
        self, tokenizer: Tokenizer, examples: Sequence[Example], max_length: int, *, labelled: bool
    ) -> EncodedExamples:
        """Encode each text or pair to a row, or to several windows.

        If `labelled`, the target is `labels`, as `targets` returns them.
        """
        texts = ((example.text, example.pair) for example in examples)
        encoded = encode_windowed(tokenizer, texts, max_length, self.windowing)
        if not labelled:
            return encoded
        return replace(encoded, example_targets={"labels": self.targets(examples)})

    def outputs(self, model: BertModel, batch: Batch) -> Tensor:
        """Compute the logits of the task's head, fp32 `[sequences, outputs]`."""
        assert self.head is not None
        return sequence_logits(model, batch, self.head)

    def distillation_loss(
        self, outputs: Tensor, teacher_outputs: Tensor, batch: Batch, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Compare student and teacher by the mean logits of each text's rows."""
        logits = mean_over_rows(outputs, batch)
        teacher_logits = mean_over_rows(teacher_outputs, batch)
        return self.compare_with_teacher(logits, teacher_logits, temperature)

    def decode(
        self,
        outputs: NDArray[np.float32],
        encoded: EncodedExamples,
        examples: Sequence[Example],
    ) -> list[PredictionT]:
        """Predict by the mean logits of each example's rows; `outputs` are `[rows, outputs]`."""
        logits = encoded.mean_over_rows(outputs)
        rows = zip(self.probabilities(logits), encoded.num_cut, encoded.num_windows, strict=True)
        return [self.prediction(row, num_cut > 0, count) for row, num_cut, count in rows]


@dataclass(frozen=True)
class LabelTask(TextTask[PredictionT]):
    """A task that decides on the `labels` of its training examples."""

    loss: LabelLoss = LabelLoss()  # noqa: RUF009 - frozen
    """The loss, with the class weights that the user asked for."""
    label_kind: LabelKind | None = field(default=None, kw_only=True)
    """The type of labels that were passed in memory; None if they were strings."""

    @property
    def label_values(self) -> tuple[Any, ...]:
        """The labels with the type that they had in training, in the order of `labels`."""
        return label_values(self.labels, self.label_kind)

    @property
    def task_settings(self) -> dict[str, Any]:
        """The settings in config.json, among them the type of the labels."""
        kind = {} if self.label_kind is None else {"label_kind": self.label_kind}
        return super().task_settings | kind

    @classmethod
    def select(cls, examples: list[Example], settings: Any) -> list[Example]:
        """Draw the sample so that each label keeps its share."""
        if settings.sample is None:
            return examples
        return stratified_sample(examples, settings.sample, settings.seed)

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        """Restore the task from its folder, with the labels that config.json names."""
        kind = loaded.model.task_settings.get("label_kind")
        return replace(super().restore(loaded), labels=loaded.labels, label_kind=kind)

    def with_teacher_labels(self, teacher: Self) -> Self:
        """Return a copy with the teacher's labels; labels of the examples keep their weights."""
        loss = self.loss.with_labels(self.labels, teacher.labels)
        task = super().with_teacher_labels(teacher)
        return replace(task, loss=loss, label_kind=teacher.label_kind)

    def fold_keys(self, example: Example) -> tuple[Any, Any]:
        """Return the keys of group and stratum: equal texts stay together, labels are spread."""
        return example.content, example.label

"""The contract between a task and the code that runs it: fine-tuning, evaluation, prediction.

A task is one file in this folder. Its class says how files become examples, examples tokens and
targets, logits losses and predictions; an instance is the task of one model, with its labels, and
is made from training examples or from a folder.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar

from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.text_files import ExampleSource
from bertsmith.data.windows import LongTexts, Windowing
from bertsmith.errors import ConfigError
from bertsmith.model.bert import BertModel
from bertsmith.tasks.agreement import Agreement, LabelAgreement
from bertsmith.tasks.inference import LoadedModel
from bertsmith.tasks.settings import FinetuneSettings
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.objective import LossTerm

if TYPE_CHECKING:
    from rich.text import Text as RichText


class TaskExample(Protocol):
    """One example of a file, labelled or not."""

    @property
    def row(self) -> int:
        """The row of the example in its file, counted from 1."""
        ...

    @property
    def content(self) -> Any:
        """The comparable input of the model: equal contents are duplicates."""
        ...

    @property
    def num_chars(self) -> int:
        """The number of characters of its texts, by which portions are sized."""
        ...


class TaskPrediction(Protocol):
    """The prediction of a model for one example."""

    @property
    def answer(self) -> Any:
        """The decision, comparable: the label, the tags, the span, the number."""
        ...

    @property
    def is_truncated(self) -> bool:
        """Whether part of the example was ignored."""
        ...

    @property
    def num_windows(self) -> int:
        """The number of rows that the example took; 1 unless too long."""
        ...


class Reader(Protocol):
    """An iterable over the examples of a file, read on demand."""

    @property
    def num_skipped(self) -> int:
        """The number of rows skipped so far because a value was missing."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class Evaluation(Protocol):
    """Scores of a model, for people (`str`) and for programs."""

    def to_json(self) -> dict[str, Any]: ...


ExampleT = TypeVar("ExampleT", bound=TaskExample)
PredictionT = TypeVar("PredictionT", bound=TaskPrediction)


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
        """Compute `loss` and each selectable score, where larger is better."""
        ...

    def result(self, num_skipped: int = 0) -> Evaluation:
        """Compute all scores."""
        ...


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

    @property
    def is_right(self) -> bool:
        """Whether the prediction is correct."""
        return self.score >= 1 if self.is_exact is None else self.is_exact


@dataclass(frozen=True)
class TaskDataset(Generic[ExampleT]):
    """The checked examples of a run, and the task that they define."""

    task: "Task[ExampleT, Any]"
    train: Sequence[ExampleT]
    held_out: Sequence[ExampleT]
    num_skipped: int = 0
    """Number of training rows skipped because a value was missing."""
    num_held_out_skipped: int = 0

    @property
    def num_overlap(self) -> int:
        """The number of eval examples that also occur in training."""
        seen = {example.content for example in self.train}
        return sum(example.content in seen for example in self.held_out)


class Task(ABC, Generic[ExampleT, PredictionT]):
    """A task: a frozen dataclass with these class attributes and methods."""

    name: ClassVar[str]
    """The NAME of `bertsmith finetune NAME`; also the name of the loss in the journal."""
    description: ClassVar[str]
    """The help text of that command."""
    settings: ClassVar[type[FinetuneSettings]]
    columns: ClassVar[type[Any]]
    """The dataclass of flags that say how a file is read; all its fields have defaults."""
    heads: ClassVar[tuple[str, ...]]
    """The heads (model/heads.py) of this task's models, which have one of them; empty for a task
    whose model is the bare encoder."""
    rows_stay_together: ClassVar[bool] = True
    """Whether the loss needs all rows of an example in one micro-batch. Otherwise each row is an
    example of its own in training, and batch sizes count rows."""
    rows_are_windows: ClassVar[bool] = False
    """Whether training may drop some rows of an example where all are too many for memory."""
    reads_tokens: ClassVar[bool] = False
    """Whether `outputs` has a row for each token, not for each sequence."""
    outcome_scale: ClassVar[Literal["share", "distance"]] = "share"
    """The meaning of `Outcome.score`: the share that is correct, or 1 minus the distance from gold.
    """
    endings: ClassVar[tuple[str, ...]] = (".jsonl",)
    """File name endings of prediction files."""

    group_size: int | None = None
    """Number of examples that meet in the loss, as one micro-batch; None where examples are
    independent, so that a step may be split in any way."""

    labels: tuple[str, ...] = ()
    """Names of the head's outputs, where it is one of `LABEL_HEADS`; a field of the instance."""

    windowing: Windowing | None = None
    """Treatment of long texts, where the task has windows; a field of the instance."""

    # From files and folders.

    @classmethod
    @abstractmethod
    def read(cls, settings: Any) -> TaskDataset[ExampleT]:
        """Read both files of a run and determine the labels.

        Raises:
            InputError: a file cannot be read, or has no usable example.
        """

    @classmethod
    @abstractmethod
    def of_model(cls, model: BertModel) -> Self:
        """Restore the task of a loaded model from heads, `id2label` and `task_settings`."""

    @classmethod
    @abstractmethod
    def predictor(cls, loaded: LoadedModel) -> Any:
        """Build the predictor that users call."""

    # Of one model.

    @abstractmethod
    def reader(self, source: ExampleSource, columns: Any, *, labelled: bool) -> Reader:
        """Open the examples of a file, or of rows in memory.

        `columns` is of the class's `columns`, or None for its defaults. Where nothing depends on
        the model, this and `from_words` are class methods.
        """

    @abstractmethod
    def from_words(self, texts: Sequence[str]) -> list[ExampleT]:
        """Build examples from the texts of a `predict` command or call.

        Raises:
            InputError: the texts are too few, too many or empty.
        """

    def with_options(self, columns: Any) -> Self:
        """Return a copy with the command line's options other than reading.

        `columns` may be None: no options.
        """
        return self

    def with_label_stats(self, examples: Iterable[ExampleT]) -> Self:
        """Return a copy fitted to all gold answers of a file.

        Outcomes of some tasks need, say, the range of the gold answers. The examples are read once
        more for this.
        """
        return self

    @property
    def head(self) -> str | None:
        """The model's head, one of `heads`; None for the bare encoder."""
        return self.heads[0] if self.heads else None

    @property
    def task_settings(self) -> dict[str, Any]:
        """The plain JSON, besides labels, that `of_model` reads from the folder."""
        return {}

    @property
    def saved_settings(self) -> dict[str, Any]:
        """The `task_settings` as stored in the folder, with the task's name."""
        return {"task": self.name, **self.task_settings}

    def with_windowing(self, long_texts: LongTexts | None, stride: int | None) -> Self:
        """Return a copy that treats long texts differently; None keeps a value.

        Raises:
            ConfigError: the task has no windows.
        """
        changes: dict[str, Any] = {"long_texts": long_texts, "stride": stride}
        given = {name: value for name, value in changes.items() if value is not None}
        if not given:
            return self
        if self.windowing is None:
            raise ConfigError(
                f"--long-texts, --stride: the task '{self.name}' reads no windows. Leave them out."
            )
        changed: Self = replace(self, windowing=replace(self.windowing, **given))  # type: ignore[type-var]
        return changed

    def write_files(self, directory: Path) -> None:
        """Write the task's own files into a model folder; none by default."""

    def begin_head(self, model: BertModel, examples: Sequence[ExampleT]) -> None:
        """Initialize a new head from the examples, where that beats random weights."""

    @abstractmethod
    def encode(
        self, tokenizer: Tokenizer, examples: Sequence[ExampleT], max_length: int, *, labelled: bool
    ) -> EncodedExamples:
        """Encode examples as rows of at most `max_length` tokens.

        Targets are those of the task, if `labelled`.
        """

    @abstractmethod
    def outputs(self, model: BertModel, batch: Batch) -> Tensor:
        """Compute fp32 logits, or vectors, in the batch's order.

        Shape: `[sequences, columns]`, or `[tokens, columns]` if `reads_tokens`.
        """

    def losses(self, model: BertModel, batch: Batch) -> dict[str, LossTerm]:
        """Compute the loss terms of a batch made by `collate` (tasks/example_objective.py)."""
        return self.output_losses(self.outputs(model, batch), batch)

    @abstractmethod
    def output_losses(self, outputs: Tensor, batch: Batch) -> dict[str, LossTerm]:
        """Compute the loss terms from a model's `outputs`.

        The term's name is the task's; its count is that of `counts`.
        """

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the predictions of each loss term: one per example unless overridden."""
        return {self.name: int(batch.targets["num_examples"])}

    # With a teacher.

    def taught_by(self, teacher: Self) -> Self:
        """Return a copy with the teacher's labels, in its order.

        Raises:
            ConfigError: the teacher does not know a label of the examples, or gives it another
                meaning.
        """
        if unknown := [label for label in self.labels if label not in teacher.labels]:
            raise ConfigError(
                f"the teacher does not know the label{'s' * (len(unknown) > 1)} "
                f"{', '.join(map(repr, unknown[:8]))} of the examples; it knows "
                f"{', '.join(map(repr, teacher.labels[:8]))}. Give a teacher that was trained for "
                "these labels, or examples with its own."
            )
        return self if self.labels == teacher.labels else self.with_labels(teacher.labels)

    def with_labels(self, labels: tuple[str, ...]) -> Self:
        """Return a copy with other labels, which include its own."""
        relabelled: Self = replace(self, labels=labels)  # type: ignore[type-var]
        return relabelled

    def encode_unlabelled(
        self, tokenizer: Tokenizer, examples: Sequence[ExampleT], max_length: int
    ) -> EncodedExamples:
        """Encode examples that only a teacher labels, with targets for `imitation`."""
        return self.encode(tokenizer, examples, max_length, labelled=False)

    @abstractmethod
    def imitation(
        self, outputs: Tensor, taught: Tensor, batch: Batch, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Compute the distillation loss, and how many predictions agree with the teacher's.

        The loss is summed over `num_imitated` predictions: where these are choices, the divergence
        of their probabilities at `temperature` (tasks/soft_targets.py). `taught` are the teacher's
        outputs.
        """

    def num_imitated(self, batch: Batch) -> int:
        """Count a batch's predictions in the distillation loss: one per example."""
        return int(batch.targets["num_examples"])

    @abstractmethod
    def predict(
        self, model: BertModel, encoded: EncodedExamples, examples: Sequence[ExampleT]
    ) -> list[PredictionT]:
        """Predict any number of examples, in their order, in groups (tasks/inference.py)."""

    @abstractmethod
    def accumulator(self, place: Path) -> MetricAccumulator:
        """Build an empty accumulator for the examples of the file `place`."""

    # For people.

    @abstractmethod
    def to_json(self, example: ExampleT, prediction: PredictionT) -> dict[str, Any]:
        """Build one line of a prediction file."""

    def record(self, example: ExampleT, prediction: PredictionT, ending: str) -> str:
        """Format an example's entry in a prediction file, line ends included.

        It is a JSON object, unless the task has another format for `ending`.
        """
        row = self.to_json(example, prediction)
        return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"

    @abstractmethod
    def line(self, example: ExampleT, prediction: PredictionT) -> "str | RichText":
        """Format a prediction as a line for people, coloured if that helps."""

    @abstractmethod
    def outcome(self, example: ExampleT, prediction: PredictionT) -> Outcome:
        """Compare a labelled example's prediction with its gold answer."""

    def entry(self, example: ExampleT, prediction: PredictionT) -> tuple[str, Any] | None:
        """Return a prediction's key and value in a single-object JSON file.

        None for a task that has no such file.
        """
        return None

    def notes(self, examples: Sequence[ExampleT], encoded: EncodedExamples) -> list[str]:
        """List remarks on the training examples for the user, each a line."""
        return []

    def with_threshold(self, evaluation: Any) -> Self:
        """Return a copy with settings that eval scores decide, like a threshold."""
        return self

    def stratify_key(self, example: ExampleT) -> Any:
        """Return the key by which cross-validation stratifies, such as the label."""
        return None

    def unit(self, example: ExampleT) -> Any:
        """Return the hashable key of examples that cross-validation keeps in one fold.

        Examples of equal contents share it, unless a task overrides this.
        """
        return example.content

    def learnt(self) -> str:
        """Describe, in a few words, what the model was trained for."""
        return f"{len(self.labels)} labels"

    def agreement(self, mine: Sequence[PredictionT], exact: Sequence[PredictionT]) -> Agreement:
        """Compare predictions with the `exact` ones (fp32) of the same texts."""
        pairs = zip(mine, exact, strict=True)
        return LabelAgreement(sum(a.answer != b.answer for a, b in pairs), len(mine))


def limited(reader: Iterable[ExampleT], limit: int | None) -> list[ExampleT]:
    """Read the first `limit` examples, or all if it is None."""
    examples: list[ExampleT] = []
    for example in reader:
        examples.append(example)
        if limit is not None and len(examples) == limit:
            break
    return examples

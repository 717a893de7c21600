"""The contract between a task and the code that runs it: fine-tuning, evaluation, distillation.

A task is one file in this folder, such as text_classification.py. The class of a task defines how
files become examples, how examples become tokens and targets, and how logits become losses and
predictions. An instance is the task of one model, with its labels; it is built from training
examples or from a model's folder. `EncodedExamples` are the token ids and targets of examples. An
example has one row of tokens or several, such as the windows (overlapping parts) of a long text.
"""

import contextlib
import json
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self

from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.reader import Reader
from bertsmith.data.records import RecordReader
from bertsmith.data.sampling import random_sample
from bertsmith.data.text_files import ExampleSource
from bertsmith.data.training_columns import TrainingColumns
from bertsmith.data.windowing import Windowing
from bertsmith.errors import ConfigError, ExamplesError, option
from bertsmith.model.bert import BertModel
from bertsmith.model.model_folder import ModelFolder
from bertsmith.system.counts import count_noun
from bertsmith.tasks.baseline import Baselines
from bertsmith.tasks.inference import LoadedModel, compute_in_order, compute_tokens_in_order
from bertsmith.tasks.prediction import InferenceTask
from bertsmith.tasks.protocols import ExampleT, PredictionT
from bertsmith.tasks.scoring import MetricAccumulator, Outcome
from bertsmith.tasks.settings.finetune import FinetuneSettings, Sources
from bertsmith.tasks.stored_settings import check_stored_settings
from bertsmith.training.objective import LossTerm


@dataclass(frozen=True)
class TaskDataset(Generic[ExampleT]):
    """The checked examples of a run, and the task that they define."""

    task: "Task[ExampleT, Any]"
    train: Sequence[ExampleT]
    held_out: Sequence[ExampleT]
    num_skipped: int = 0
    """Number of training rows skipped because a value was missing."""
    num_held_out_skipped: int = 0
    """Number of eval rows skipped because a value was missing."""

    @property
    def num_overlap(self) -> int:
        """The number of eval examples that also occur in training."""
        held_out_contents = [example.content for example in self.held_out]
        # `content` is the model's input, without the label.
        in_both = set(held_out_contents) & {example.content for example in self.train}
        return sum(content in in_both for content in held_out_contents)


@contextlib.contextmanager
def naming_limits(
    settings: FinetuneSettings, *, num_read: int, num_held_out: int | None = None
) -> Iterator[None]:
    """Name the settings that left out examples in an `ExamplesError` of the block.

    An `ExamplesError` says that the examples which were read do not suffice. The settings are
    `limit`, `eval_limit` and `sample`: with larger values, the examples might be right.

    Args:
        num_read: number of training examples that were read.
        num_held_out: number of eval examples; None if an error cannot be about them.
    """
    try:
        yield
    except ExamplesError as error:
        reasons = []
        # As many examples as the limit: there may be more in the file.
        for name, path, count in (
            ("limit", settings.train, num_read),
            ("eval_limit", settings.eval, num_held_out),
        ):
            if count is not None and count == getattr(settings, name):
                rows_were = "row was" if count == 1 else f"{count:,} rows were"
                reasons.append(
                    f"Of {path} only the first {rows_were} read ({option(name, count)}); a larger "
                    "number may help."
                )
        if settings.sample is not None and settings.sample < num_read:
            reasons.append(
                f"Of {settings.train} only some rows are used ({option('sample', settings.sample)})"
                "; a larger number may help."
            )
        raise ExamplesError(" ".join([error.message, *reasons])) from None


FileFormat = Callable[[Iterable[tuple[Any, Any]]], Iterator[str]]
"""Format of a prediction file: yields pieces of its text from examples with their predictions."""


def jsonl(pairs: Iterable[tuple[Any, Any]]) -> Iterator[str]:
    """Format each example and its prediction as a line with a JSON object."""
    for example, prediction in pairs:
        row = {**example.to_json(), **prediction.to_json()}
        yield json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


class TaskHooks(InferenceTask[ExampleT, PredictionT]):
    """Optional methods of a task, with their defaults."""

    @classmethod
    def select(cls, examples: list[ExampleT], settings: Any) -> list[ExampleT]:
        """Select the examples to train on from those that were read."""
        return random_sample(examples, settings.sample, settings.seed)

    @classmethod
    def check_train(cls, examples: Sequence[ExampleT], settings: Any) -> None:
        """Check that a model can learn from the training examples.

        Raises:
            ExamplesError: it cannot; the message says why. Other examples of the same file might
                suffice.
        """

    def check_held_out(self, examples: Sequence[ExampleT], settings: Any) -> None:
        """Check that eval examples can be scored.

        Raises:
            InputError: they cannot be scored; the message says why. The error is an
                `ExamplesError` if other examples of the same file might be scored.
        """

    @property
    def texts_per_example(self) -> int | None:
        """The number of texts on a command line that make an example; None if all make one."""
        return 1

    def with_model(self, folder: ModelFolder, settings: Any, train: Sequence[ExampleT]) -> Self:
        """Return a copy with settings that depend on the model to train and on the examples."""
        return self

    def with_columns(self, columns: Any) -> Self:
        """Return a copy with values from `columns`, the options for reading a file.

        Only options that the task itself applies are taken, such as `repair` and `strict` of a
        tagger.
        """
        return self

    def with_label_stats(self, examples: Iterable[ExampleT]) -> Self:
        """Return a copy with settings that depend on all labels of a file, such as their range.

        `examples` are all examples of the file. If outcomes of examples are asked for, `evaluate`
        (evaluation/evaluate.py) reads it once for this alone, before it predicts.
        """
        return self

    def with_threshold(self, evaluation: Any) -> Self:
        """Return a copy with a threshold, or other settings, chosen by the scores `evaluation`."""
        return self

    def write_files(self, directory: Path) -> None:
        """Write the task's own files into a model folder."""

    def with_train(self, train: Sequence[ExampleT], path: Path) -> Self:
        """Return a copy with settings that depend on the training examples, from the file `path`.

        Regression takes the mean and the scale of its numbers from them, for example.
        """
        return self

    def begin_head(self, model: BertModel, examples: Sequence[ExampleT]) -> None:
        """Initialize a new head from the training examples; by default it stays random."""

    def continue_head(self, model: BertModel) -> None:
        """Convert a saved head to its form in training; by default both forms are the same."""

    @contextlib.contextmanager
    def as_saved(self, model: BertModel) -> Iterator[dict[str, Tensor]]:
        """While the block runs, convert the head to the form in which it is saved.

        Yields the head's weights in their form in training, by the names of the model's parameters.
        A checkpoint stores these weights as well, so that a resumed run is the same bit for bit.
        By default both forms are the same, and the dictionary is empty.
        """
        yield {}

    def notes(self, examples: Sequence[ExampleT], encoded: EncodedExamples) -> list[str]:
        """List remarks on the training examples for the user, each a line."""
        return []

    def labels_of(self, example: ExampleT) -> Collection[str]:
        """Return the labels of an example that should occur in each fold of a cross-validation."""
        return ()

    group_nouns: ClassVar[str] = "different examples"
    """Plural noun for the groups of `fold_keys`, in messages."""

    def fold_keys(self, example: ExampleT) -> tuple[Any, Any]:
        """Return the keys of an example's group and stratum.

        Cross-validation keeps the examples of a group in one fold. Each stratum, such as the
        examples of one label, is spread evenly over the folds.
        """
        return example.content, None


class Task(TaskHooks[ExampleT, PredictionT]):
    """A task that is trained and scored: a frozen dataclass."""

    name: ClassVar[str]
    """The NAME of `bertsmith finetune NAME`; also the name of the loss among a run's metrics."""
    target_phrase: ClassVar[str] = ""
    """Words that follow "100 examples" in messages, such as "with choices"; empty for a task with
    `labels`, which are counted instead."""
    noun: ClassVar[str] = "text"
    """Noun for an example in messages; its plural ends in s."""
    settings: ClassVar[type[FinetuneSettings]]
    """The settings of the command `bertsmith finetune NAME`; their docstring is its help."""
    columns: ClassVar[type[Any]]
    """The dataclass of options for reading a file; all its fields have defaults."""
    kept_columns: ClassVar[tuple[str, ...]] = ()
    """Names of options that are fields of the task and of its class `columns`. In an evaluation
    these options have the task's values, unless the call gives others."""
    formats: ClassVar[Mapping[str, FileFormat]] = {".jsonl": jsonl}
    """Formats of prediction files, by the ending of a file's name."""
    rows_stay_together: ClassVar[bool] = True
    """Whether the loss needs all rows of an example in one micro-batch (forward pass). If not, each
    row is an example of its own in training, and batch sizes count rows."""
    rows_are_windows: ClassVar[bool] = False
    """Whether the rows of an example are windows of a long text, some of which training may drop if
    all together need too much memory."""
    baselines: ClassVar[Baselines] = Baselines()
    """The simple methods whose scores are reported beside those of the model."""
    reads_tokens: ClassVar[bool] = False
    """Whether `outputs` has a row for each token, not for each sequence (row of tokens)."""

    group_size: int | None = None
    """Number of examples that the loss compares with one another, so that they must be in one
    micro-batch. None if each example has a loss of its own, so that a step may be divided in any
    way."""
    labels: tuple[str, ...] = ()
    """Names of the head's outputs if it has one for each label; a field of the instance."""
    windowing: Windowing | None = None
    """Treatment of long texts if the task reads windows; a field of the instance."""
    trained: TrainingColumns = TrainingColumns()
    """The columns that the model was trained on; a field of the instance of tasks over tables."""
    stored: ClassVar[tuple[str, ...]] = ()
    """Names of the fields that are stored in a model's folder, besides windowing and columns."""

    @classmethod
    def read(cls, settings: Any, sources: Sources | None = None) -> TaskDataset[ExampleT]:
        """Read the examples of a run from both files, or from `sources`.

        Raises:
            InputError: a file cannot be read, or has no usable example.
        """
        train_source, eval_source = sources or settings.sources
        # An instance with defaults, since no example is known that would define the task.
        reader = cls().reader(train_source, settings.columns, labelled=True)
        examples = reader.read(settings.limit)
        with naming_limits(settings, num_read=len(examples)):
            train = cls.select(examples, settings)
            cls.check_train(train, settings)
            task = cls.of_examples(train, settings)
        if isinstance(reader, RecordReader):  # of a table, whose columns the model remembers
            task = replace(task, trained=reader.columns_read())  # type: ignore[type-var]
        if eval_source is None:  # there are no eval examples
            return TaskDataset(task, train, [], reader.num_skipped)
        eval_reader = task.reader(eval_source, settings.columns, labelled=True)
        held_out = eval_reader.read(settings.eval_limit)
        with naming_limits(settings, num_read=len(examples), num_held_out=len(held_out)):
            task.check_held_out(held_out, settings)
        return TaskDataset(task, train, held_out, reader.num_skipped, eval_reader.num_skipped)

    @classmethod
    def of_examples(cls, train: list[ExampleT], settings: Any) -> Self:
        """Build the task of a run from its training examples, which `check_train` has passed.

        Raises:
            InputError: the examples contradict each other or the settings. The error is an
                `ExamplesError` if other examples of the same file might fit.
        """
        raise NotImplementedError

    @abstractmethod
    def reader(self, source: ExampleSource, columns: Any, *, labelled: bool) -> Reader[ExampleT]:
        """Open the examples of a file, or of rows in memory.

        `columns` is an instance of the class in the attribute `columns`, or None for the defaults.
        `labelled` says whether to read the right answers, too. In a task whose reading does not
        depend on the model, this is a class method.
        """

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        """Restore the task from the settings of a folder.

        Raises:
            CheckpointError: a setting has a value that is not allowed.
        """
        check_stored_settings(loaded)
        settings = loaded.model.task_settings
        values = {name: settings[name] for name in cls.stored if settings.get(name) is not None}
        if cls.windowing is not None:  # the default of the class: the task reads windows
            values["windowing"] = Windowing.of_settings(settings)
        # Only tasks over tables have the field `trained`.
        if any(field.name == "trained" for field in fields(cls)):  # type: ignore[arg-type]
            values["trained"] = TrainingColumns.from_json(settings.get("columns"))
        return cls(**values)

    @property
    def task_settings(self) -> dict[str, Any]:
        """The plain JSON, besides labels, that `restore` reads from the folder."""
        windowing = {} if self.windowing is None else asdict(self.windowing)
        stored = {name: getattr(self, name) for name in self.stored}
        return windowing | stored | self.column_settings

    @property
    def column_settings(self) -> dict[str, Any]:
        """The part of `task_settings` that names the columns of training; empty if unknown."""
        return {"columns": self.trained.to_json()} if self.trained.names else {}

    def compute_outputs(self, model: BertModel, encoded: EncodedExamples) -> Any:
        """Compute the function `outputs` for all rows, in their order and in fp32.

        The result is an array `[rows, columns]`. If `reads_tokens`, it is a list that holds an
        array `[tokens, columns]` for each row.
        """
        compute = compute_tokens_in_order if self.reads_tokens else compute_in_order
        return compute(model, encoded.rows, self.outputs)

    @abstractmethod
    def outputs(self, model: BertModel, batch: Batch) -> Tensor:
        """Compute fp32 logits, or vectors, in the batch's order.

        Shape: `[sequences, columns]`, or `[tokens, columns]` if `reads_tokens`.
        """

    @abstractmethod
    def compute_loss(self, outputs: Tensor, batch: Batch) -> LossTerm:
        """Compute the loss from `outputs`, in the shape that the function `outputs` returns.

        The loss is a sum over predictions, an fp32 scalar, and `num_predictions` is their number.
        `batch.targets` has the targets that `encode` made, and for each sequence the index of its
        example (`collate` in example_objective.py).
        """

    def training_loss(self, model: BertModel, batch: Batch) -> LossTerm:
        """Compute the loss of training examples, by default from `outputs`."""
        return self.compute_loss(self.outputs(model, batch), batch)

    @abstractmethod
    def distillation_loss(
        self, outputs: Tensor, teacher_outputs: Tensor, batch: Batch, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Compute the distillation loss, and the number of predictions that agree with the teacher.

        `outputs` are those of the student, `teacher_outputs` those of the teacher; each has the
        shape that the function `outputs` returns. The loss and the number are scalars. The loss is
        summed over predictions. For predictions of one or several labels, it is the divergence of
        the probabilities of student and teacher, whose logits are divided by `temperature`.
        """

    def num_predictions(self, batch: Batch, *, distilled: bool = False) -> int:
        """Count the predictions that a loss sums over, by default one for each example.

        The loss is that of training, or with `distilled` that of distillation.
        """
        return int(batch.targets["num_examples"])

    def with_teacher_labels(self, teacher: Self) -> Self:
        """Return a copy with the teacher's labels, in the teacher's order.

        Raises:
            ConfigError: the teacher does not know a label of the examples, or gives it another
                meaning.
        """
        if unknown := [label for label in self.labels if label not in teacher.labels]:
            noun = "labels" if len(unknown) > 1 else "label"
            raise ConfigError(
                f"the teacher does not know the {noun} {', '.join(map(repr, unknown[:8]))} of the "
                f"examples; it knows {', '.join(map(repr, teacher.labels[:8]))}. Give a teacher "
                "that was trained for these labels, or examples with its own."
            )
        if self.labels == teacher.labels:
            return self
        return replace(self, labels=teacher.labels)  # type: ignore[type-var]

    @abstractmethod
    def accumulator(self, path: Path) -> MetricAccumulator:
        """Build an empty accumulator for the examples of the file `path`."""

    @abstractmethod
    def outcome(self, example: ExampleT, prediction: PredictionT) -> Outcome:
        """Compare a labelled example's prediction with its gold answer."""

    def describe_target(self) -> str:
        """Describe the labels by words that follow "100 examples", such as "with 2 labels"."""
        return self.target_phrase or f"with {count_noun(len(self.labels), 'label')}"


def named_settings(task: Task[Any, Any]) -> dict[str, Any]:
    """Return a task's settings as they are stored in config.json, with the name of the task."""
    return {"task": task.name, **task.task_settings}

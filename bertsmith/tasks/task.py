"""What a task is to everyone who knows no task by name: fine-tuning, evaluation, prediction.

A task is one file in this folder. Its class says how files become examples, examples tokens and
targets, logits losses and predictions; an instance is the task as one model does it, with its
labels, and is made from training examples or from a folder.
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
from bertsmith.data.windows import LongTexts, Windowing
from bertsmith.errors import ConfigError
from bertsmith.model.bert import BertModel
from bertsmith.tasks.objective import LossTerm
from bertsmith.tasks.settings import FinetuneSettings
from bertsmith.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from rich.text import Text as RichText

    from bertsmith.tasks.inference import LoadedModel
    from bertsmith.tasks.predictor import Predictor


class TaskExample(Protocol):
    """One labelled thing of a file, or an unlabelled one."""

    @property
    def row(self) -> int:
        """Where it stands in its file, from 1."""
        ...

    @property
    def content(self) -> Any:
        """What the model reads of it, comparable: equal contents are one example met twice."""
        ...

    @property
    def num_chars(self) -> int:
        """How long its texts are, by which examples are read in portions."""
        ...


class TaskPrediction(Protocol):
    """What a model says of an example."""

    @property
    def answer(self) -> Any:
        """The decision, comparable: the label, the tags, the span, the number."""
        ...

    @property
    def is_truncated(self) -> bool:
        """Whether something of the example had no part in this."""
        ...

    @property
    def num_windows(self) -> int:
        """In how many rows the model read the example; more than 1 if it was too long for one."""
        ...


class Reader(Protocol):
    """The examples of a file, read as they are asked for."""

    @property
    def num_skipped(self) -> int:
        """Rows left out so far because something in them was missing."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class Evaluation(Protocol):
    """Scores, for people (`str`) and for programs."""

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        ...


ExampleT = TypeVar("ExampleT", bound=TaskExample)
PredictionT = TypeVar("PredictionT", bound=TaskPrediction)


class Tally(Protocol):
    """Takes in examples with their predictions, a portion at a time, and sums up."""

    def add(self, examples: Sequence[Any], predictions: Sequence[Any]) -> None:
        """Count a portion in; memory must not grow with the number of examples, or by a few bytes
        for each.

        Raises:
            InputError: an example's label is none that the model knows.
        """
        ...

    def figures(self) -> dict[str, float]:
        """`loss` and every score by which weights may be chosen, where larger is better."""
        ...

    def result(self, num_skipped: int = 0) -> Evaluation:
        """All scores."""
        ...


@dataclass(frozen=True)
class Outcome:
    """A prediction beside what is right, in words, for a list of misses and a report.

    `score` is 1 where all is right and less where not; `confidence`, from 0 to 1, is how sure the
    model was, where it says so. `is_exact` is given where a score of 1 does not mean right.
    """

    text: str
    gold: str
    predicted: str
    score: float
    confidence: float | None = None
    is_exact: bool | None = None

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong with the prediction."""
        return self.score >= 1 if self.is_exact is None else self.is_exact


@dataclass(frozen=True)
class Lesson(Generic[ExampleT]):
    """The examples of a run, read and checked, and the task that they make."""

    task: "Task[ExampleT, Any]"
    train: Sequence[ExampleT]
    held_out: Sequence[ExampleT]
    num_skipped: int = 0
    """Training rows left out because something in them was missing."""
    num_held_out_skipped: int = 0

    @property
    def num_leaked(self) -> int:
        """Held-out examples that are among the training ones too, so their score means nothing."""
        seen = {example.content for example in self.train}
        return sum(example.content in seen for example in self.held_out)


class Agreement(Protocol):
    """How close answers in bf16 or int8 come to those in fp32."""

    @property
    def name(self) -> str:
        """Its key in a JSON report, before `_beside_fp32`."""
        ...

    def _asdict(self) -> dict[str, Any]: ...

    def sentence(self, precision: str) -> str:
        """The same for people."""
        ...


class Task(ABC, Generic[ExampleT, PredictionT]):
    """A frozen dataclass with these class facts and methods."""

    name: ClassVar[str]
    """As in `bertsmith finetune NAME`; also the name of the loss in the journal."""
    description: ClassVar[str]
    """The help of that command."""
    settings: ClassVar[type[FinetuneSettings]]
    columns: ClassVar[type[Any]]
    """The dataclass of flags that say how a file is read; all its fields have defaults."""
    heads: ClassVar[tuple[str, ...]]
    """The heads (model/heads.py) that models of this task have: one of them, or none for a task
    whose model is the bare encoder."""
    rows_stay_together: ClassVar[bool] = True
    """Whether the loss needs all rows of an example in one micro-batch. Where not, each row is
    learnt by itself, and batch sizes count rows."""
    rows_are_windows: ClassVar[bool] = False
    """Whether an example can be learnt by some of its rows where all are too many for memory."""
    reads_tokens: ClassVar[bool] = False
    """Whether `outputs` has a row for each token, not for each sequence."""
    outcome_scale: ClassVar[Literal["share", "distance"]] = "share"
    """What an outcome's score is: the share that is right, or 1 less the distance from it."""
    endings: ClassVar[tuple[str, ...]] = (".jsonl",)
    """What the names of files of predictions end in."""

    group_size: int | None = None
    """How many examples meet in the loss, as a micro-batch of their own; None where each is learnt
    by itself and a step may be divided in any way."""

    labels: tuple[str, ...] = ()
    """Names of the head's outputs, where it is one of `LABEL_HEADS`: a field of the instance."""

    windowing: Windowing | None = None
    """What becomes of long texts, where the task has windows: a field of the instance."""

    # From files and folders.

    @classmethod
    @abstractmethod
    def read(cls, settings: Any) -> Lesson[ExampleT]:
        """Read both files of a run and agree on the labels.

        Raises:
            InputError: a file cannot be read, or holds nothing to learn.
        """

    @classmethod
    @abstractmethod
    def of_model(cls, model: BertModel) -> Self:
        """The task that a loaded model was trained for, by its heads, `id2label` and
        `task_settings`."""

    @classmethod
    @abstractmethod
    def predictor(cls, loaded: "LoadedModel") -> "Predictor[Self, ExampleT, PredictionT]":
        """What a user calls."""

    # Of one model.

    @abstractmethod
    def reader(self, path: Path, columns: Any, *, labelled: bool) -> Reader:
        """The examples of a file; `columns` is of the class's `columns`, or None for its
        defaults. Where nothing depends on the model, this and the next are class methods."""

    @abstractmethod
    def from_words(self, texts: Sequence[str]) -> list[ExampleT]:
        """Examples from texts as they are typed after `bertsmith predict DIR`, or given to the
        predictor's call.

        Raises:
            InputError: the texts are too few, too many or empty.
        """

    def asked(self, columns: Any) -> Self:
        """The same with what flags say besides how files are read; None asks for nothing."""
        return self

    def fitted(self, examples: Iterable[ExampleT]) -> Self:
        """The same with what only all labelled examples of a file tell of its gold answers, where
        outcomes need it; they are read for this once more."""
        return self

    @property
    def head(self) -> str | None:
        """Which of `heads` the model has."""
        return self.heads[0] if self.heads else None

    @property
    def task_settings(self) -> dict[str, Any]:
        """What `of_model` wants to find in the folder besides labels, as plain JSON."""
        return {}

    @property
    def saved_settings(self) -> dict[str, Any]:
        """`task_settings` as they stand in the folder, with the task's name."""
        return {"task": self.name, **self.task_settings}

    def with_windowing(self, long_texts: LongTexts | None, stride: int | None) -> Self:
        """The same task that treats long texts otherwise; None leaves what was.

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
        """Write what the task's folder holds besides model and tokenizer, if anything."""

    def begin_head(self, model: BertModel, examples: Sequence[ExampleT]) -> None:
        """Give a new head a better start than chance, if there is one."""

    @abstractmethod
    def encode(
        self, tokenizer: Tokenizer, examples: Sequence[ExampleT], max_length: int, *, labelled: bool
    ) -> EncodedExamples:
        """Rows of at most `max_length` tokens, and targets where examples are `labelled`."""

    @abstractmethod
    def outputs(self, model: BertModel, batch: Batch) -> Tensor:
        """What the model says of a batch: logits in fp32, or vectors, in the batch's order.

        A row for each sequence, `[sequences, columns]`, or for each token, `[tokens, columns]`.
        """

    def losses(self, model: BertModel, batch: Batch) -> dict[str, LossTerm]:
        """The loss terms of a batch that `collate` (tasks/finetuning.py) made."""
        return self.output_losses(self.outputs(model, batch), batch)

    @abstractmethod
    def output_losses(self, outputs: Tensor, batch: Batch) -> dict[str, LossTerm]:
        """The same of a model's `outputs`.

        The term's name is the task's; its count is what `counts` says.
        """

    def counts(self, batch: Batch) -> dict[str, int]:
        """Predictions of each loss term in a batch: one per example unless overridden."""
        return {self.name: int(batch.targets["num_examples"])}

    # With a teacher.

    def taught_by(self, teacher: Self) -> Self:
        """The same task with the labels of `teacher`, in the order of its outputs.

        Raises:
            ConfigError: the examples have a label that the teacher does not know, or that
                means something else to it.
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
        """The same with other labels, of which its own are some."""
        relabelled: Self = replace(self, labels=labels)  # type: ignore[type-var]
        return relabelled

    def encode_unlabelled(
        self, tokenizer: Tokenizer, examples: Sequence[ExampleT], max_length: int
    ) -> EncodedExamples:
        """Rows of examples of which only a teacher says something, with what `imitation` needs."""
        return self.encode(tokenizer, examples, max_length, labelled=False)

    @abstractmethod
    def imitation(
        self, outputs: Tensor, taught: Tensor, batch: Batch, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """How far a model's `outputs` are from a teacher's, and how often both say the same.

        The first is a loss summed over `num_imitated` predictions: where these are choices, the
        divergence of their probabilities at `temperature` (tasks/soft_targets.py).
        """

    def num_imitated(self, batch: Batch) -> int:
        """Predictions in a batch that a teacher's are compared with: one per example."""
        return int(batch.targets["num_examples"])

    @abstractmethod
    def predict(
        self, model: BertModel, encoded: EncodedExamples, examples: Sequence[ExampleT]
    ) -> list[PredictionT]:
        """A prediction for each example, in their order; any number of them, computed in groups
        (tasks/inference.py)."""

    @abstractmethod
    def tally(self, place: Path) -> Tally:
        """An empty tally, for the examples of the file `place`."""

    # For people.

    @abstractmethod
    def to_json(self, example: ExampleT, prediction: PredictionT) -> dict[str, Any]:
        """One line of a file of predictions."""

    def record(self, example: ExampleT, prediction: PredictionT, ending: str) -> str:
        """What a file of predictions whose name ends so has of an example, line ends included:
        one JSON object, unless the task knows of others."""
        row = self.to_json(example, prediction)
        return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"

    @abstractmethod
    def line(self, example: ExampleT, prediction: PredictionT) -> "str | RichText":
        """The same in a line for people, in colours if it helps."""

    @abstractmethod
    def outcome(self, example: ExampleT, prediction: PredictionT) -> Outcome:
        """A labelled example's prediction beside its gold answer."""

    def entry(self, example: ExampleT, prediction: PredictionT) -> tuple[str, Any] | None:
        """The name and the value of a prediction in a file that is one JSON object; None for a
        task that has no such file."""
        return None

    def notes(self, examples: Sequence[ExampleT], encoded: EncodedExamples) -> list[str]:
        """What the user should know of the training examples, each a line."""
        return []

    def settled(self, evaluation: Any) -> Self:
        """The task with what the scores of the trained model decide, such as a threshold."""
        return self

    def stratum(self, example: ExampleT) -> Any:
        """What cross-validation gives each fold an equal share of, such as the label."""
        return None

    def unit(self, example: ExampleT) -> Any:
        """What cross-validation never divides between learning and scoring, hashable: examples
        whose contents are equal, unless a task says more."""
        return example.content

    def learnt(self) -> str:
        """What a finished run tells first: "learnt …"."""
        return f"{len(self.labels)} labels"

    def agreement(self, mine: Sequence[PredictionT], exact: Sequence[PredictionT]) -> Agreement:
        """How close predictions come to the `exact` ones of the same texts."""
        from bertsmith.tasks.agreement import LabelAgreement

        pairs = zip(mine, exact, strict=True)
        return LabelAgreement(sum(a.answer != b.answer for a, b in pairs), len(mine))


def limited(reader: Iterable[ExampleT], limit: int | None) -> list[ExampleT]:
    """All examples of a reader, or its first `limit`."""
    examples: list[ExampleT] = []
    for example in reader:
        examples.append(example)
        if limit is not None and len(examples) == limit:
            break
    return examples

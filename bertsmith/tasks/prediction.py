"""The contract of a task at inference: how a model with some head is used to predict.

Texts and records (dictionaries of an example's values) become examples, examples become rows of
tokens, and rows become predictions. `Task` (task.py) adds the methods for training and scoring.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, Self

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import name_type
from bertsmith.data.examples import Example
from bertsmith.errors import InputError
from bertsmith.model.bert import BertModel
from bertsmith.tasks.inference import LoadedModel
from bertsmith.tasks.protocols import ExampleT, PredictionT
from bertsmith.tokenization.tokenizer import Tokenizer

PAIR_FIELDS = ("pair", "text_pair")
"""Fields of a record that hold the second text of a pair."""


class InferenceTask(ABC, Generic[ExampleT, PredictionT]):
    """A task at inference: a frozen dataclass with these class attributes and methods."""

    pipeline: ClassVar[str]
    """The tag of the Hugging Face pipeline for the same task, such as text-classification."""
    heads: ClassVar[tuple[str, ...]]
    """Names of heads, such as "classify", of which a model of this task must have one; empty for a
    task that needs only the encoder."""
    example_type: ClassVar[type[Any]]
    """The class of the examples that `example` builds."""
    titles: ClassVar[tuple[str, ...]] = ("label", "probability", "text", "second text")
    """Titles of the tab-separated columns of a prediction's line (`Prediction.line`)."""
    fields: ClassVar[tuple[str, ...]]
    """The keys of a record, in the order of the arguments of a call."""

    @property
    def head(self) -> str | None:
        """The head that this task trains and reads, the first of `heads`; None for no head.

        For a model with another head, `restore` returns the task of that head.
        """
        return self.heads[0] if self.heads else None

    @classmethod
    @abstractmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        """Restore the task of a loaded model from its folder."""

    def with_loaded(self, loaded: LoadedModel) -> Self:
        """Return a copy for `loaded`, this task's model loaded again, as for another device."""
        return self

    @property
    def other_models(self) -> tuple[BertModel, ...]:
        """The models that predict besides the loaded one, such as the others of an average."""
        return ()

    @abstractmethod
    def example(self, record: Mapping[str, Any]) -> ExampleT:
        """Build an example from a record with the keys `fields`; others but `row` are ignored.

        `row` is the number of an example of the command line, from 1. Without it, the row is 0.

        Raises:
            InputError: a value is missing or of another type; names the field.
        """

    @abstractmethod
    def encode(
        self, tokenizer: Tokenizer, examples: Sequence[ExampleT], max_length: int, *, labelled: bool
    ) -> EncodedExamples:
        """Encode examples as rows of at most `max_length` tokens.

        If `labelled`, the rows come with the targets of the task's loss.

        Raises:
            InputError: an example cannot be encoded, or has a label that the task does not know.
            ConfigError: neighbouring windows would overlap by more than half of a row.
        """

    @abstractmethod
    def compute_outputs(self, model: BertModel, encoded: EncodedExamples) -> Any:
        """Compute the model's outputs for all rows, in groups of rows of similar length.

        The outputs are arrays in the order of the rows; `decode` describes their shape.
        """

    @abstractmethod
    def decode(
        self, outputs: Any, encoded: EncodedExamples, examples: Sequence[ExampleT]
    ) -> list[PredictionT]:
        """Derive the prediction of each example from the outputs of its rows."""

    def predict(
        self, model: BertModel, encoded: EncodedExamples, examples: Sequence[ExampleT]
    ) -> list[PredictionT]:
        """Predict any number of examples, in their order."""
        return self.decode(self.compute_outputs(model, encoded), encoded, examples)

    @property
    def cell_types(self) -> Mapping[str, Any]:
        """The names and types of the columns that predictions add to the user's table.

        Empty if predictions of this task are not written as a table.
        """
        return {}

    def cells(self, prediction: PredictionT) -> dict[str, Any]:
        """Return the cells of a prediction, by the names in `cell_types`."""
        return {name: getattr(prediction, name) for name in self.cell_types}


def text_field(record: Mapping[str, Any], name: str) -> str:
    """Return the string of a field.

    Raises:
        InputError: the field is missing or no string.
    """
    if name not in record:
        keys = ", ".join(f"'{key}'" for key in list(record)[:10]) or "none"
        raise InputError(f"'{name}': not given. Keys found: {keys}. Add it, or rename one of them.")
    if not isinstance(record[name], str):
        raise InputError(f"'{name}': found {name_type(record[name])}. Give a string.")
    return str(record[name])


def single_text(record: Mapping[str, Any]) -> str:
    """Return the field `text` of a task that reads one text.

    Raises:
        InputError: the field is missing, or the record has a second text.
    """
    for name in PAIR_FIELDS:
        if record.get(name) is not None:
            raise InputError(
                f"'{name}': found a second text, but this model reads single texts. Make it an "
                "example of its own, or leave it out."
            )
    return text_field(record, "text")


def text_example(record: Mapping[str, Any]) -> Example:
    """Build an example from the fields `text` and, where it is given, `pair` or `text_pair`.

    Raises:
        InputError: a field is missing or no string, or both `pair` and `text_pair` are given.
    """
    text = text_field(record, "text")
    given_names = [name for name in PAIR_FIELDS if record.get(name) is not None]
    if len(given_names) > 1:
        raise InputError("Give either 'pair' or 'text_pair', not both: each is the second text.")
    pair = text_field(record, given_names[0]) if given_names else None
    return Example(text, pair, row=record.get("row", 0))

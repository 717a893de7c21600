"""A fine-tuned folder in, something that answers when called out; the same for every task."""

import copy
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import as_list
from bertsmith.data.unknown_tokens import UnknownTokens
from bertsmith.tasks.inference import LoadedModel, load_for_inference
from bertsmith.tasks.task import ExampleT, PredictionT, Task

TaskT = TypeVar("TaskT", bound=Task[Any, Any])


class Predictor(Generic[TaskT, ExampleT, PredictionT]):
    """Predicts examples with a loaded model; a task's own inherits and can be called with texts."""

    task_type: ClassVar[type[Task[Any, Any]]]
    heads: ClassVar[tuple[str, ...]] = ()
    """The heads of models that it reads, where they are not all of the task's."""
    example_type: ClassVar[type[Any]]
    argument: ClassVar[str] = "texts"
    """What messages call that which it is called with."""
    cure: ClassVar[str] = 'list(frame["text"]), or list(zip(frame["a"], frame["b"])) for pairs'
    """How this is made of a table, for messages."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.task: TaskT = self.task_type.of_model(loaded.model)  # type: ignore[assignment]
        self.unknown_tokens = UnknownTokens()
        """Of all that was read so far, by copies with other settings too."""

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        device: str = "auto",
        precision: str = "auto",
        max_length: int | None = None,
    ) -> Self:
        """The predictor in a model folder that has a head of this task.

        Raises:
            CheckpointError: the folder is incomplete, or has another head.
        """
        heads = cls.heads or cls.task_type.heads
        return cls(
            load_for_inference(
                path, heads=heads, device=device, precision=precision, max_length=max_length
            )
        )

    def predict(self, examples: Sequence[ExampleT] | Sequence[Any]) -> list[PredictionT]:
        """Predict each example, in their order; or what a list in a call holds, such as texts."""
        given = as_list(
            [examples] if isinstance(examples, str) else examples, self.argument, self.cure
        )
        if not given:
            return []
        are_examples = all(isinstance(each, self.example_type) for each in given)
        read: list[ExampleT] = given if are_examples else self.to_examples(given)
        predictions: list[PredictionT] = self.task.predict(
            self.loaded.model, self.encode_examples(read), read
        )
        return predictions

    @abstractmethod
    def to_examples(self, given: Sequence[Any]) -> list[ExampleT]:
        """Make examples of what a list in a call holds.

        Raises:
            InputError: something is not of the expected type; names its place.
        """

    def encode_examples(self, examples: Sequence[ExampleT]) -> EncodedExamples:
        """Token ids of examples, as much of them as the model reads."""
        loaded = self.loaded
        encoded = self.task.encode(loaded.tokenizer, examples, loaded.max_length, labelled=False)
        self.unknown_tokens.add(encoded.rows.ids, loaded.tokenizer)
        return encoded

    def asked(self, columns: Any) -> Self:
        """The same with what a command line asks of its task; see `Task.asked`."""
        same = copy.copy(self)
        same.task = self.task.asked(columns)
        return same

    def fitted(self, examples: Iterable[ExampleT]) -> Self:
        """The same with what a file's gold answers are like; see `Task.fitted`."""
        same = copy.copy(self)
        same.task = self.task.fitted(examples)
        return same

    def exact(self) -> Self:
        """The same in fp32."""
        exact = type(self).load(
            self.loaded.path,
            device=str(self.loaded.device),
            precision="fp32",
            max_length=self.loaded.asked_length,
        )
        exact.task = self.task
        return exact

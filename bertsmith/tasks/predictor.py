"""The common base of predictors, which load a fine-tuned folder and are called with texts."""

import copy
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import as_list
from bertsmith.data.unknown_tokens import UnknownTokens
from bertsmith.model.model_folder import read_folder
from bertsmith.tasks.inference import LoadedModel, load_for_inference
from bertsmith.tasks.task import ExampleT, PredictionT, Task

TaskT = TypeVar("TaskT", bound=Task[Any, Any])


class Predictor(Generic[TaskT, ExampleT, PredictionT]):
    """A loaded model of a task, which predicts examples; subclasses are callable."""

    task_type: ClassVar[type[Task[Any, Any]]]
    heads: ClassVar[tuple[str, ...]] = ()
    """Heads of the models that it loads, where these are not all heads of the task."""
    example_type: ClassVar[type[Any]]
    argument: ClassVar[str] = "texts"
    """Name of the call's argument, for messages."""
    cure: ClassVar[str] = 'list(frame["text"]), or list(zip(frame["a"], frame["b"])) for pairs'
    """Example of making that argument from a table, for messages."""

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
        """Load a model folder that has a head of this task.

        Raises:
            CheckpointError: the folder is incomplete, or has another head.
        """
        heads = cls.heads or cls.task_type.heads
        return cls(
            load_for_inference(
                read_folder(path),
                heads=heads,
                device=device,
                precision=precision,
                max_length=max_length,
            )
        )

    def predict(self, examples: Sequence[ExampleT] | Sequence[Any]) -> list[PredictionT]:
        """Predict each example in order; also takes the items of a call."""
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
        """Build examples from the items of a call's list.

        Raises:
            InputError: an item is not of the expected type; names its place.
        """

    def encode_examples(self, examples: Sequence[ExampleT]) -> EncodedExamples:
        """Encode examples, cut or windowed to the model's maximum length."""
        loaded = self.loaded
        encoded = self.task.encode(loaded.tokenizer, examples, loaded.max_length, labelled=False)
        self.unknown_tokens.add(encoded.rows.ids, loaded.tokenizer)
        return encoded

    def with_options(self, columns: Any) -> Self:
        """Return a copy with the command line's options; see `Task.asked`."""
        same = copy.copy(self)
        same.task = self.task.with_options(columns)
        return same

    def with_label_stats(self, examples: Iterable[ExampleT]) -> Self:
        """Return a copy fitted to a file's gold answers; see `Task.fitted`."""
        same = copy.copy(self)
        same.task = self.task.with_label_stats(examples)
        return same

    def exact(self) -> Self:
        """Load the same folder again in fp32."""
        exact = type(self)(
            load_for_inference(
                self.loaded.folder,
                heads=self.heads or self.task_type.heads,
                device=str(self.loaded.device),
                precision="fp32",
                max_length=self.loaded.asked_length,
            )
        )
        exact.task = self.task
        return exact

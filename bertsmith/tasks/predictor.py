"""The one kind of predictor, for every head: examples, records or texts in, predictions out."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import Text, as_list, as_pairs, describe, encode_texts
from bertsmith.data.unknown_tokens import UnknownTokens
from bertsmith.errors import InputError
from bertsmith.model.model_folder import ModelFolder, read_folder
from bertsmith.tasks.inference import LoadedModel, load_for_inference
from bertsmith.tasks.prediction import InferenceTask
from bertsmith.tasks.text_vectors import TextVectors

DefinitionT = TypeVar("DefinitionT", bound=InferenceTask[Any, Any])


class Predictor(Generic[DefinitionT]):
    """A loaded model that is called with texts or records.

    >>> classifier = load("runs/reviews")  # doctest: +SKIP
    >>> classifier("a gripping story").label  # doctest: +SKIP
    'positive'

    A text (`answerer(question, passage)` where one prediction needs several values) or a record
    gives a prediction; a list of texts, tuples of such values, or records a list of predictions.
    """

    def __init__(self, loaded: LoadedModel, definition: DefinitionT) -> None:
        self.loaded = loaded
        self.definition = definition
        self.unknown_tokens = UnknownTokens()
        """Of all that was read so far, by copies with other settings too."""

    @classmethod
    def load(
        cls,
        path: str | Path | ModelFolder,
        definition: type[DefinitionT],
        *,
        device: str = "auto",
        precision: str = "auto",
        max_length: int | None = None,
        **options: Any,
    ) -> Self:
        """Load a model folder for predictions of one kind, with `options` of its `restore`.

        Raises:
            CheckpointError: the folder is incomplete, or has another head.
        """
        loaded = load_for_inference(
            path if isinstance(path, ModelFolder) else read_folder(path),
            heads=definition.heads,
            device=device,
            precision=precision,
            max_length=max_length,
        )
        return cls(loaded, definition.restore(loaded, **options))

    @property
    def task(self) -> str:
        """The tag of the Hugging Face pipeline that does the same, such as text-classification."""
        return self.definition.pipeline

    def example(self, record: Mapping[str, Any]) -> Any:
        """Build an example from a record, such as `{"question": "…", "context": "…"}`.

        Raises:
            InputError: a field is missing or of another type.
        """
        return self.definition.example(record)

    def predict(self, examples: Sequence[Any]) -> list[Any]:
        """Predict each example, in order."""
        if not examples:
            return []
        encoded = self.encode_examples(examples)
        self.unknown_tokens.add(encoded.rows.ids, self.loaded.tokenizer)
        return self.definition.predict(self.loaded.model, encoded, examples)

    def num_tokens(self, example: Any) -> int:
        """Count the tokens that the model reads for an example, over all its rows."""
        return self.encode_examples([example]).lengths[0]

    def __call__(self, given: Any, *more: Any) -> Any:
        """Predict one text or record, or each of a list of them.

        Raises:
            InputError: a value is missing or of another type; names its place.
        """
        if isinstance(given, str | Mapping):
            return self.predict([self._as_example((given, *more) if more else given)])[0]
        fields = self.definition.fields
        if more:
            raise InputError(
                f"{fields[1]}: found {describe(more[0])} beside several. Give a list of tuples: "
                f"[({', '.join(fields)}), ...]."
            )
        columns = ", ".join(f'frame["{name}"]' for name in fields)
        cure = f"list(zip({columns}))" if len(fields) > 1 else f"list({columns})"
        return self.predict(self._as_examples(as_list(given, "examples", cure)))

    def _as_examples(self, given: Sequence[Any]) -> list[Any]:
        examples = []
        for place, one in enumerate(given):
            try:
                examples.append(self._as_example(one))
            except InputError as error:
                raise InputError(f"examples[{place}]: {error}") from None
        return examples

    def _as_example(self, given: Any) -> Any:
        definition = self.definition
        if isinstance(given, definition.example_type):
            return given
        if isinstance(given, Mapping):
            return self.example(given)
        fields = definition.fields
        are_values = isinstance(given, tuple) or (isinstance(given, list) and len(fields) > 1)
        values = given if are_values else (given,)
        if len(values) > len(fields):
            raise InputError(f"found {describe(given)}. Give {' and '.join(fields)}.")
        return self.example(dict(zip(fields, values, strict=False)))

    def encode(self, texts: str | Sequence[Text]) -> NDArray[np.float32]:
        """Compute the vector of one text, `[hidden]`, or those of several, `[texts, hidden]`."""
        if isinstance(texts, str):
            vector: NDArray[np.float32] = self.encode([texts])[0]
            return vector
        rows = encode_texts(self.loaded.tokenizer, as_pairs(texts), self._text_vectors.max_length)
        return self._text_vectors.vectors(self.loaded.model, rows)

    @property
    def _text_vectors(self) -> TextVectors:
        own = self.definition
        return own if isinstance(own, TextVectors) else self._folder_vectors

    @cached_property
    def _folder_vectors(self) -> TextVectors:
        return TextVectors.restore(self.loaded)

    def encode_examples(self, examples: Sequence[Any]) -> EncodedExamples:
        """Encode examples, cut or windowed to the model's maximum length."""
        loaded = self.loaded
        return self.definition.encode(loaded.tokenizer, examples, loaded.max_length, labelled=False)

    def with_definition(self, definition: DefinitionT) -> Self:
        """Return a copy that predicts by another definition of the same head."""
        same = copy.copy(self)
        same.definition = definition
        return same

    def with_options(self, **changes: Any) -> Self:
        """Return a copy with other options, such as `threshold=0.7`, `repair=True` or `top=10`."""
        return self.with_definition(replace(self.definition, **changes))  # type: ignore[type-var]

    def exact(self) -> Self:
        """Load the same folder again in fp32."""
        loaded = load_for_inference(
            self.loaded.folder,
            heads=self.definition.heads,
            device=str(self.loaded.device),
            precision="fp32",
            max_length=self.loaded.asked_length,
        )
        return type(self)(loaded, self.definition)

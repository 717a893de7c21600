"""Protocols of the examples and predictions of tasks: what those of every task have."""

from typing import Any, Protocol, TypeVar


class TaskExample(Protocol):
    """One example of a file, labelled or not."""

    @property
    def row(self) -> int:
        """The row of the example in its file, counted from 1."""
        ...

    @property
    def content(self) -> Any:
        """The model's input in a form that can be compared: equal contents are duplicates."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return the row and the texts of the example."""
        ...


class Prediction(Protocol):
    """The prediction of a model for one example."""

    @property
    def answer(self) -> Any:
        """The decision in a form that can be compared: the label, tags, span or number."""
        ...

    @property
    def is_truncated(self) -> bool:
        """Whether the example was too long for the model, so that its end was cut off."""
        ...

    @property
    def num_windows(self) -> int:
        """The number of windows, overlapping parts, in which a long text was read; 1 for others."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, to be merged with the JSON of the example."""
        ...

    def line(self, example: Any) -> Any:
        """Format prediction and example as one line for people: columns separated by tabs.

        The line is a string, or a `Text` of the library rich, which has colors.
        """
        ...


ExampleT = TypeVar("ExampleT", bound=TaskExample)


PredictionT = TypeVar("PredictionT", bound=Prediction)

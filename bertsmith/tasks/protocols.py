"""Protocols of examples and predictions, which those of every task follow."""

from typing import Any, Protocol, TypeVar


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

    def to_json(self) -> dict[str, Any]:
        """Return its row and texts."""
        ...


class Prediction(Protocol):
    """The prediction of a model for one example."""

    @property
    def answer(self) -> Any:
        """The decision, comparable: the label, the tags, the span, the number."""
        ...

    @property
    def is_truncated(self) -> bool:
        """Whether the end of an example too long for the model was ignored."""
        ...

    @property
    def num_windows(self) -> int:
        """The number of rows that the example took; 1 unless too long."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, to be merged with that of the example."""
        ...

    def line(self, example: Any) -> Any:
        """Format prediction and example as a line, string or rich text, its parts between tabs."""
        ...


ExampleT = TypeVar("ExampleT", bound=TaskExample)


PredictionT = TypeVar("PredictionT", bound=Prediction)

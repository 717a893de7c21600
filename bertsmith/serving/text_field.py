"""The path of a request's texts in its body, such as `inputs[1]`, for messages."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class TextField:
    """The field of a request that has its texts, and the path of each text in it.

    Args:
        name: the field, such as `inputs`.
        path_of: returns the path of a text by its index; None for `inputs[0]`, `inputs[1]` …
    """

    name: str
    path_of: Callable[[int], str] | None = None

    @classmethod
    def of_one(cls, name: str) -> "TextField":
        """Return the field of a single text, whose path is the name of the field."""
        return cls(name, lambda index: name)

    @classmethod
    def of(cls, name: str, value: object) -> "TextField":
        """Return the field of one text, or of a list of texts."""
        return cls(name) if isinstance(value, list) else cls.of_one(name)

    def of_text(self, index: int) -> str:
        """Return the path of a text."""
        return f"{self.name}[{index}]" if self.path_of is None else self.path_of(index)

    def __str__(self) -> str:
        return self.name

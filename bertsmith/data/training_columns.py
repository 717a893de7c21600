"""The columns of a table from which a model was trained: that of the text, of the label and so on.

The model's folder stores them, so that the model reads the columns of these names in other files.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bertsmith.errors import CheckpointError

NUMBERED = "column "
"""Beginning of the name of a column in a table without a header; its number follows."""


@dataclass(frozen=True)
class TrainingColumns:
    """The columns that a model was trained on, and the separator between them.

    Attributes:
        names: names of columns by their role, such as `text` and `label` (`ColumnSpec.name`). If
            the table had no header, they are `column 2` and so on. Empty if they are not known.
        delimiter: the separator that the user set; None if there was none.
    """

    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    delimiter: str | None = None

    @classmethod
    def from_json(cls, value: Any) -> "TrainingColumns":
        """Read what `to_json` wrote.

        Raises:
            CheckpointError: the value is something else.
        """
        if value is None:
            return cls()
        names = value.get("names") if isinstance(value, Mapping) else None
        delimiter = value.get("delimiter") if isinstance(value, Mapping) else None
        if not (
            isinstance(names, Mapping)
            and all(map(_are_strings, names.values()))
            and (delimiter is None or isinstance(delimiter, str))
        ):
            raise CheckpointError(
                "config.json: 'columns' of the task is not as training writes it. Remove it, or "
                "copy the file again."
            )
        return cls({str(name): tuple(columns) for name, columns in names.items()}, delimiter)

    def to_json(self) -> dict[str, Any]:
        names = {name: list(columns) for name, columns in self.names.items()}
        return {"names": names, "delimiter": self.delimiter}

    @property
    def are_numbers(self) -> bool:
        """Whether the table had no header."""
        all_names = [name for names in self.names.values() for name in names]
        return bool(all_names) and all(_number(name) is not None for name in all_names)

    @property
    def numbers(self) -> dict[str, str]:
        """The numbers of columns, as flags take them; for a table without a header."""
        return {
            name: ",".join(str(_number(column)) for column in columns)
            for name, columns in self.names.items()
        }


def _are_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _number(name: str) -> int | None:
    """Parse the number of a column in a table without a header; None for other names."""
    number = name.removeprefix(NUMBERED)
    return int(number) if name.startswith(NUMBERED) and number.isdecimal() else None

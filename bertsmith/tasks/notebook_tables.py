"""Tables that a notebook shows for predictions at the end of a cell."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any

from bertsmith.system.notebook import html_lines, html_table
from bertsmith.tasks.protocols import PredictionT

MAX_LABELS = 10
"""Largest number of labels of one prediction that are shown."""
MAX_PREDICTIONS = 20
"""Largest number of predictions that a table shows."""
MAX_CELL_CHARACTERS = 200
"""Largest number of characters of a table's cell; longer texts are shortened."""


class Predictions(list[PredictionT]):
    """Predictions in the order of their examples, of which a notebook shows the first."""

    def __init__(self, pairs: Iterable[tuple[Any, PredictionT]], titles: Sequence[str]) -> None:
        """Take the predictions from `pairs`, each an example and its prediction.

        Args:
            titles: titles of the table's columns, which are the tab-separated parts of the line
                that a prediction gives for people (`line`).
        """
        self._titles = titles
        self._first: list[tuple[Any, PredictionT]] = []
        super().__init__(self._note_first(pairs))

    def _note_first(self, pairs: Iterable[tuple[Any, PredictionT]]) -> Iterator[PredictionT]:
        """Yield the predictions, and keep the first pairs for the table."""
        for pair in pairs:
            if len(self._first) < MAX_PREDICTIONS:
                self._first.append(pair)
            yield pair[1]

    def _repr_html_(self) -> str | None:
        first = [prediction for _, prediction in self._first]
        # `is_` compares identities: a caller may have sorted or changed this list.
        are_still_first = len(first) == min(len(self), MAX_PREDICTIONS) and all(
            map(is_, first, self)
        )
        if not (first and are_still_first):  # the list was changed: Jupyter shows it as text
            return None
        rows = [str(prediction.line(example)).split("\t") for example, prediction in self._first]
        width = max(map(len, rows))  # texts without a pair have a column less
        cells = [[*map(_shorten, row), *[""] * (width - len(row))] for row in rows]
        rest = [f"… and {len(self) - len(rows):,} more"] if len(self) > len(rows) else []
        return html_table(cells, self._titles[:width]) + html_lines(rest)


def likeliest(probabilities: Mapping[Any, float]) -> list[tuple[Any, float]]:
    """Return the `MAX_LABELS` likeliest labels with their probabilities, the likeliest first."""
    return sorted(probabilities.items(), key=lambda pair: -pair[1])[:MAX_LABELS]


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_CELL_CHARACTERS else f"{text[: MAX_CELL_CHARACTERS - 1]}…"

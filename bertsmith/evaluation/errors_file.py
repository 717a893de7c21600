"""A file of wrong predictions, the most confident first, for `bertsmith evaluate --errors`.

An outcome is a prediction beside the gold (right) answer, with its score and confidence. Its
urgency is its sort key: the confidence or, without one, the negative score. The score of a number
is 1 minus its error. Predicted numbers are hardly ever exact, so for a regression only the
`MAX_NUMBER_ERRORS` rows with the largest errors are written, the largest first. Rows are written to
a temporary file and sorted at the end, so that memory holds only two numbers for each, its urgency
and its place in the file.
"""

import json
import tempfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from bertsmith.data.csv_lines import csv_line
from bertsmith.errors import SettingError
from bertsmith.system.files import atomic_write
from bertsmith.system.write_error import failing_late, naming_write_errors
from bertsmith.tasks.scoring import Outcome

MAX_NUMBER_ERRORS = 100
"""Largest number of rows that are written if predictions are numbers."""

FIELDS = ("line", "text", "gold", "predicted", "confidence", "score")
"""Columns of a .csv file, and keys of the objects of a .jsonl file."""


class Misses:
    """Accumulator of wrong predictions, which writes each as a line; made by `write_misses`.

    Args:
        write: appends bytes to the temporary file.
        is_csv: whether lines are rows of a .csv file, not objects of a .jsonl file.
    """

    def __init__(self, write: Callable[[bytes], object], *, is_csv: bool) -> None:
        self._write = write
        self._encode = _as_csv if is_csv else _as_json
        self._urgency = array("d")
        """`Outcome.urgency` of each line, by which the lines are sorted."""
        self._starts = array("q", [0])
        """Index of the first byte of each line in the temporary file; the last entry is its end."""
        self._are_numeric = False
        """Whether the predictions are numbers."""

    def __len__(self) -> int:
        return len(self._urgency)

    def add(self, examples: Sequence[Any], outcomes: Sequence[Outcome]) -> None:
        """Write the wrong ones of some outcomes."""
        self._are_numeric |= any(outcome.is_numeric for outcome in outcomes)
        for example, outcome in zip(examples, outcomes, strict=True):
            if not outcome.is_right:
                outcome_fields = {name: getattr(outcome, name) for name in FIELDS[1:]}
                # `example.row` is the row or line of the example in the user's file, from 1.
                line = self._encode({"line": example.row, **outcome_fields})
                self._write(line)
                self._urgency.append(outcome.urgency)
                self._starts.append(self._starts[-1] + len(line))

    def in_order(self, spool: IO[bytes]) -> Iterator[bytes]:
        """Yield the lines, those of the highest `Outcome.urgency` first.

        Lines of equal urgency keep the order in which they were added.

        Args:
            spool: the file that holds the lines that were written.
        """
        max_lines = MAX_NUMBER_ERRORS if self._are_numeric else None
        order = np.argsort(-np.asarray(self._urgency), kind="stable")
        for index in order[:max_lines].tolist():
            spool.seek(self._starts[index])
            yield spool.read(self._starts[index + 1] - self._starts[index])


@contextmanager
def write_misses(path: Path) -> Iterator[Misses]:
    """Collect wrong predictions in the block; write `path` when it ends without error.

    The file holds all of them; if predictions are numbers, the `MAX_NUMBER_ERRORS` with the largest
    errors.

    Raises:
        ConfigError: the name ends neither in .jsonl nor in .csv.
        WriteError: the file cannot be written; raised before the block or when it ends.
    """
    if path.suffix not in (".jsonl", ".csv"):
        raise SettingError("errors", path, "a name that ends in .jsonl or .csv")
    with naming_write_errors(path):
        # The spool, a temporary file, may become as large as `path`, and the system's folder of
        # temporary files may be small. `atomic_write` below makes a missing parent folder.
        folder = path.parent if path.parent.is_dir() else None
        spool = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed below
    with _closing(spool):
        is_csv = path.suffix == ".csv"
        # An error in writing is raised when this block ends, and names `path`.
        with failing_late(spool.write, path) as write:
            misses = Misses(write, is_csv=is_csv)
            yield misses
        with atomic_write(path) as file:
            if is_csv:
                file.write(_as_csv({name: name for name in FIELDS}))
            for line in misses.in_order(spool):
                file.write(line)


@contextmanager
def _closing(spool: IO[bytes]) -> Iterator[None]:
    """Close the spool after the block; ignore errors, since the spool is no longer needed."""
    try:
        yield
    finally:
        with suppress(OSError):
            spool.close()


def _as_json(record: dict[str, Any]) -> bytes:
    return (json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _as_csv(record: dict[str, Any]) -> bytes:
    return csv_line(record[name] for name in FIELDS).encode()

"""Evaluation of a fine-tuned model on labelled data, for any task.

A predictor is a loaded model with its task, `definition`. An outcome is a prediction beside the
gold (right) answer, with its score.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bertsmith.data.text_files import STANDARD_INPUT
from bertsmith.errors import InputError
from bertsmith.tasks.predictor import OutcomeCallback, Predictor, accumulate_rows
from bertsmith.tasks.scoring import Evaluation
from bertsmith.tasks.task import Task


def evaluate(
    predictor: Predictor[Task[Any, Any]],
    data: Path,
    columns: Any = None,
    *,
    limit: int | None = None,
    callbacks: Sequence[OutcomeCallback] = (),
) -> Evaluation:
    """Score a model on a file's labelled rows, or its first `limit`.

    The file is read in chunks, so it may have any size. `columns` are the options for reading it;
    None stands for the defaults. `callbacks` receive the outcome of each example, chunk by chunk.

    Raises:
        ConfigError: `limit` is not above 0.
        InputError: the file cannot be read, or holds a label that the model does not know.
    """
    if callbacks:
        task = predictor.definition.with_columns(columns)
        reader = task.reader(data, columns, labelled=True)
        # The outcome of an example may depend on all labels, so they are read before.
        task = task.with_label_stats(_read_first_time(data, reader.first(limit)))
        predictor = predictor.with_definition(task)
    accumulator, num_skipped = accumulate_rows(
        predictor, data, columns, limit=limit, callbacks=callbacks
    )
    return accumulator.result(num_skipped)


def _read_first_time(data: Path, examples: Iterable[Any]) -> Iterator[Any]:
    """Yield the examples of a file that will be read a second time.

    Raises:
        InputError: the file is standard input.
    """
    if data == STANDARD_INPUT:
        raise InputError(f"{data}: standard input can be read only once. Write it to a file.")
    yield from examples

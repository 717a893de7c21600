"""A fine-tuned model and labelled data in, its scores out, for any task."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bertsmith.predict import in_chunks, rows_of
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.task import Evaluation, Reader


def evaluate(
    predictor: Predictor[Any, Any, Any],
    data: Path,
    columns: Any = None,
    *,
    limit: int | None = None,
) -> Evaluation:
    """Score a model on the labelled rows of a file, or on its first `limit`.

    The file is read a portion at a time, so it may have any size.

    Raises:
        InputError: the file cannot be read, or holds a label that the model does not know.
    """
    reader = predictor.task.reader(data, columns, labelled=True)
    return evaluate_examples(predictor, rows_of(reader, limit), data, reader)


def evaluate_examples(
    predictor: Predictor[Any, Any, Any],
    examples: Iterable[Any],
    place: Path,
    reader: Reader | None = None,
) -> Evaluation:
    """Score a model on examples of the file `place`, which `reader` reads if anyone does."""
    tally = predictor.task.tally(place)
    for chunk in in_chunks(examples):
        tally.add(chunk, predictor.predict(chunk))
    evaluation: Evaluation = tally.result(0 if reader is None else reader.num_skipped)
    return evaluation

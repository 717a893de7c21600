"""A fine-tuned model and labelled data in, its scores out, for any task."""

from pathlib import Path
from typing import Any

from bertsmith.predict import in_chunks, rows_of
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.task import Evaluation


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
    tally = predictor.task.tally(data)
    for examples in in_chunks(rows_of(reader, limit)):
        tally.add(examples, predictor.predict(examples))
    evaluation: Evaluation = tally.result(reader.num_skipped)
    return evaluation

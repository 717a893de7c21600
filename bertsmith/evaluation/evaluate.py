"""Evaluation of a fine-tuned model on labelled data, for any task."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from bertsmith.tasks.auto import in_chunks, rows_of
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.task import Evaluation, MetricAccumulator, Outcome


class OutcomeCallback(Protocol):
    """A receiver of each example's outcome, such as a list of errors."""

    def see(self, examples: Sequence[Any], outcomes: Sequence[Outcome]) -> None:
        """Receive a portion of examples and their outcomes."""
        ...


def evaluate(
    predictor: Predictor[Any, Any, Any],
    data: Path,
    columns: Any = None,
    *,
    limit: int | None = None,
    callbacks: Sequence[OutcomeCallback] = (),
) -> Evaluation:
    """Score a model on a file's labelled rows, or its first `limit`.

    The file is read a portion at a time, so it may have any size; `callbacks` receive the outcome
    of each example.

    Raises:
        ConfigError: `limit` is not above 0.
        InputError: the file cannot be read, or holds a label that the model does not know.
    """
    predictor = predictor.with_options(columns)
    reader = predictor.task.reader(data, columns, labelled=True)
    if callbacks:
        again = predictor.task.reader(data, columns, labelled=True)
        predictor = predictor.with_label_stats(rows_of(again, limit))
    accumulator = accumulate_examples(predictor, rows_of(reader, limit), data, callbacks)
    evaluation: Evaluation = accumulator.result(reader.num_skipped)
    return evaluation


def accumulate_examples(
    predictor: Predictor[Any, Any, Any],
    examples: Iterable[Any],
    place: Path,
    callbacks: Sequence[OutcomeCallback] = (),
) -> MetricAccumulator:
    """Predict the examples of the file `place`, and accumulate their scores."""
    accumulator: MetricAccumulator = predictor.task.accumulator(place)
    for chunk in in_chunks(examples):
        predictions = predictor.predict(chunk)
        accumulator.add(chunk, predictions)
        if callbacks:
            outcomes = list(map(predictor.task.outcome, chunk, predictions))
        for callback in callbacks:
            callback.see(chunk, outcomes)
    return accumulator

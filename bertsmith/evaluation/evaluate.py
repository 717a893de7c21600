"""Evaluation of a fine-tuned model on labelled data, for any task."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from bertsmith.tasks.auto import in_chunks, rows_of
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.task import Evaluation, Outcome, Tally


class OutcomeWatcher(Protocol):
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
    watchers: Sequence[OutcomeWatcher] = (),
) -> Evaluation:
    """Score a model on a file's labelled rows, or its first `limit`.

    The file is read a portion at a time, so it may have any size; `watchers` receive the outcome of
    each example.

    Raises:
        ConfigError: `limit` is not above 0.
        InputError: the file cannot be read, or holds a label that the model does not know.
    """
    predictor = predictor.asked(columns)
    reader = predictor.task.reader(data, columns, labelled=True)
    if watchers:
        again = predictor.task.reader(data, columns, labelled=True)
        predictor = predictor.fitted(rows_of(again, limit))
    tally = tally_examples(predictor, rows_of(reader, limit), data, watchers)
    evaluation: Evaluation = tally.result(reader.num_skipped)
    return evaluation


def tally_examples(
    predictor: Predictor[Any, Any, Any],
    examples: Iterable[Any],
    place: Path,
    watchers: Sequence[OutcomeWatcher] = (),
) -> Tally:
    """Predict the examples of the file `place`, and accumulate their scores."""
    tally: Tally = predictor.task.tally(place)
    for chunk in in_chunks(examples):
        predictions = predictor.predict(chunk)
        tally.add(chunk, predictions)
        if watchers:
            outcomes = list(map(predictor.task.outcome, chunk, predictions))
        for watcher in watchers:
            watcher.see(chunk, outcomes)
    return tally

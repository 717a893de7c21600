"""A fine-tuned model and labelled data in, its scores out, for any task."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from bertsmith.predict import in_chunks, rows_of
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.task import Evaluation, Outcome, Tally


class OutcomeWatcher(Protocol):
    """Whoever wants to see what became of each example, such as a list of misses."""

    def see(self, examples: Sequence[Any], outcomes: Sequence[Outcome]) -> None:
        """Take in a portion."""
        ...


def evaluate(
    predictor: Predictor[Any, Any, Any],
    data: Path,
    columns: Any = None,
    *,
    limit: int | None = None,
    watchers: Sequence[OutcomeWatcher] = (),
) -> Evaluation:
    """Score a model on the labelled rows of a file, or on its first `limit`.

    The file is read a portion at a time, so it may have any size; `watchers` see what became of
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
    """What a model makes of examples of the file `place`, for `Tally.result`."""
    tally: Tally = predictor.task.tally(place)
    for chunk in in_chunks(examples):
        predictions = predictor.predict(chunk)
        tally.add(chunk, predictions)
        if watchers:
            outcomes = list(map(predictor.task.outcome, chunk, predictions))
        for watcher in watchers:
            watcher.see(chunk, outcomes)
    return tally

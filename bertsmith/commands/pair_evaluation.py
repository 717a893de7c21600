"""The evaluation of any model on minimal pairs, with the scores of each pair in a file.

A minimal pair is a good sentence and a bad one that hardly differs from it; a model should find the
good one likelier.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import IO, Any

from bertsmith.commands.settings.evaluate import Settings
from bertsmith.evaluation.minimal_pairs import PairCallback, evaluate_minimal_pairs
from bertsmith.system.files import atomic_write
from bertsmith.system.write_error import failing_late
from bertsmith.tasks.pair_scores import MinimalPair, PairScores
from bertsmith.tasks.scoring import Evaluation


def evaluate_pairs(
    settings: Settings, scorer: Any, path: Path, print_scores: Callable[[Evaluation], None]
) -> None:
    """Score the pairs of a file; if --scores is given, write the scores of each pair there.

    Args:
        scorer: the model, as a `PairScorer`: it computes the log-probability of sentences.
        print_scores: receives the result, after the scores of the pairs are written.

    Raises:
        WriteError: the scores of the pairs could not be written. All pairs were scored
            nevertheless, and `print_scores` was called.
    """
    with ExitStack() as at_end, ExitStack() as stack:
        callbacks: list[PairCallback] = []
        if settings.scores is not None:
            file = stack.enter_context(atomic_write(settings.scores, "w"))
            write = partial(_write_scores, file)
            # After an error of `write` the other pairs are still scored. The error is raised when
            # `stack` closes.
            callbacks.append(stack.enter_context(failing_late(write, settings.scores)))
        result = evaluate_minimal_pairs(
            scorer, path, settings.columns, limit=settings.limit, callbacks=callbacks
        )
        # `at_end` closes after `stack`: if the pairs' scores cannot be written, those of the model
        # are printed nevertheless.
        at_end.callback(print_scores, result)


def _write_scores(
    file: IO[str], pairs: Sequence[MinimalPair], scores: Sequence[PairScores]
) -> None:
    for pair, score in zip(pairs, scores, strict=True):
        row = pair.to_json() | score.to_json()
        file.write(json.dumps(row, ensure_ascii=False) + "\n")

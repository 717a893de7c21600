"""The contract of baselines: simple methods, fitted to training examples, that a model must beat.

`Task.baselines` holds the baselines of a task. Each task has a file for them, such as
`class_baselines.py`, so that `predict` imports only the baselines of the model's task.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertsmith.metrics.names import format_score, score_name
from bertsmith.system.compute import InferenceCompute


@dataclass(frozen=True)
class Baseline:
    """Scores of a simple method on the eval examples, by the names that reports have for them."""

    key: str
    """Short name of the method in JSON, such as majority."""
    method: str
    """Description of the method for a reader."""
    scores: Mapping[str, float]
    answer: str | None = None
    """The answer of a method that gives the same answer to every example; else None."""

    def __str__(self) -> str:
        scores = [
            f"{score_name(name)} {format_score(name, value)}" for name, value in self.scores.items()
        ]
        return f"baseline  {self.method}: {', '.join(scores)}"


def most_frequent(counts: Mapping[str, int]) -> str:
    """Return the most frequent label, on a tie the first by name.

    >>> most_frequent({"b": 2, "a": 2, "c": 1})
    'a'
    """
    return min(counts, key=lambda label: (-counts[label], label))


class Baselines:
    """The baselines of a task.

    A *gold key* is the right answer of an example as a string that can be counted, such as a label.
    This base class has no baseline: a subclass overrides `gold_keys`, or the methods that score.
    All methods get the instance of the task as `task`.
    """

    def gold_keys(self, task: Any, examples: Sequence[Any]) -> list[str]:
        """Return the gold key of each example.

        The list is empty for a task in which nearly every example has an answer of its own, so that
        no answer is the most frequent one.
        """
        return []

    def is_gold_key(self, text: str) -> bool:
        """Return whether a text, such as one from a file, has the form of a gold key."""
        return True

    def score_constant(self, task: Any, answer: str, gold: Mapping[str, int]) -> Baseline:
        """Score the method that always gives `answer`.

        `answer` and the keys of `gold` are strings of `gold_keys`; the values of `gold` count the
        examples with that right answer.
        """
        accuracy = gold.get(answer, 0) / sum(gold.values())
        return Baseline("majority", f"always {answer}", {"accuracy": accuracy}, answer)

    def score_cheap(
        self,
        task: Any,
        train: Sequence[Any],
        held_out: Sequence[Any],
        initial_scores: Mapping[str, float],
    ) -> list[Baseline]:
        """Score the baselines that only count; by default the most frequent training answer.

        `initial_scores` are those of the model before training; empty if they were not computed.
        """
        gold = Counter(self.gold_keys(task, held_out))
        if not gold:
            return []
        answer = most_frequent(Counter(self.gold_keys(task, train)))
        return [self.score_constant(task, answer, gold)]

    def score_costly(
        self,
        task: Any,
        train: Sequence[Any],
        held_out: Sequence[Any],
        model: Path,
        compute: InferenceCompute,
    ) -> list[Baseline]:
        """Score the baselines that take some seconds.

        `model` is the folder of the model before fine-tuning. `compute` has the device and the
        number format for baselines that use it.
        """
        return []

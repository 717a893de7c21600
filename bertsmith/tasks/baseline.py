"""The contract of plain methods, fitted to training examples, that a model has to beat.

Each task names its plain methods as `Task.baselines`. They are in a file for each task, such as
`class_baselines.py`, so that a prediction imports those of its task alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertsmith.metrics.names import format_score, score_name
from bertsmith.system.compute import InferenceCompute

EXAMPLES = Path("examples")
"""Stands for a file in errors about examples that were read before."""


@dataclass(frozen=True)
class Baseline:
    """Scores of a plain method on the eval examples; `scores` has the names of reports as keys."""

    key: str
    method: str
    """Description of the method for a reader."""
    scores: Mapping[str, float]
    answer: str | None = None
    """The answer of a method that always gives the same one; None for other methods."""

    def __str__(self) -> str:
        scores = [f"{score_name(name)} {format_score(name, v)}" for name, v in self.scores.items()]
        return f"baseline  {self.method}: {', '.join(scores)}"


def most_frequent(counts: Mapping[str, int]) -> str:
    """Return the most frequent label, on a tie the first by name.

    >>> most_frequent({"b": 2, "a": 2, "c": 1})
    'a'
    """
    return min(counts, key=lambda label: (-counts[label], label))


class Baselines:
    """The plain methods of a task, which is the argument `task` of each function.

    A task without a `gold_keys` of its own has no plain method.
    """

    def gold_keys(self, task: Any, examples: Sequence[Any]) -> list[str]:
        """Return a string for the right answer of each example; equal answers have equal strings.

        The list is empty in tasks where an answer is hardly ever right for several examples, so
        that there is no most frequent answer.
        """
        return []

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
        before: Mapping[str, float],
    ) -> list[Baseline]:
        """Score the methods that only count: by default the most frequent answer.

        `before` holds the scores of the model before training, if they were computed.
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
        """Score the methods that take some seconds; `model` is the folder that was fine-tuned."""
        return []

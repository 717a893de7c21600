"""What a fine-tuned model has to beat: the contract of plain methods, fitted to training examples.

Each task names its own as `Task.baselines`; those of ours are in `baselines.py`.
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
    """Scores of a plain method on the eval examples, by their names in reports."""

    key: str
    method: str
    """The method in words."""
    scores: Mapping[str, float]
    answer: str | None = None
    """The one answer that is always given, where the method is that."""

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
    """The plain methods of a task, which the methods are given; as it stands, there are none."""

    def gold_keys(self, task: Any, examples: Sequence[Any]) -> list[str]:
        """Return a string for the right answer of each example, alike for equal answers.

        Empty where no answer is right for several examples, so that none is the most frequent.
        """
        return []

    def score_constant(self, task: Any, answer: str, gold: Mapping[str, int]) -> Baseline:
        """Score always giving one answer; both are as `gold_keys` writes them, with counts."""
        accuracy = gold.get(answer, 0) / sum(gold.values())
        return Baseline("majority", f"always {answer}", {"accuracy": accuracy}, answer)

    def cheap(
        self,
        task: Any,
        train: Sequence[Any],
        held_out: Sequence[Any],
        before: Mapping[str, float],
    ) -> list[Baseline]:
        """Score what needs no more than counting: by default the most frequent answer.

        `before` holds the scores of the model before training, where these were computed.
        """
        gold = Counter(self.gold_keys(task, held_out))
        if not gold:
            return []
        answer = most_frequent(Counter(self.gold_keys(task, train)))
        return [self.score_constant(task, answer, gold)]

    def costly(
        self,
        task: Any,
        train: Sequence[Any],
        held_out: Sequence[Any],
        model: Path,
        compute: InferenceCompute,
    ) -> list[Baseline]:
        """Score what takes some seconds; `model` is the folder that was fine-tuned."""
        return []

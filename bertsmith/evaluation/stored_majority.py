"""The baseline of an evaluation: always the most frequent answer of the training examples."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bertsmith.tasks.baseline import Baseline
from bertsmith.tasks.scoring import Outcome
from bertsmith.tasks.task import Task


class StoredMajority:
    """Callback of `evaluate` that scores the most frequent answer of training on the gold answers.

    Args:
        run: the content of run.json in the model's folder, which may be damaged; the answer is
            stored there.
    """

    def __init__(self, task: Task[Any, Any], run: Mapping[str, Any]) -> None:
        result = run.get("result")
        stored = result.get("baselines") if isinstance(result, Mapping) else None
        baselines = stored if isinstance(stored, list) else []
        rows = [row for row in baselines if isinstance(row, Mapping)]
        answers = [row.get("answer") for row in rows if row.get("key") == "majority"]
        self.task = task
        is_key = task.baselines.is_gold_key
        of_task = (answer for answer in answers if isinstance(answer, str) and is_key(answer))
        self.answer = next(of_task, None)
        self._gold: Counter[str] = Counter()

    def add(self, examples: Sequence[Any], outcomes: Sequence[Outcome]) -> None:
        if self.answer is not None:
            self._gold.update(self.task.baselines.gold_keys(self.task, examples))

    def baselines(self) -> list[Baseline]:
        """Return the baseline; empty if run.json does not have the most frequent answer."""
        if self.answer is None or not self._gold:
            return []
        return [self.task.baselines.score_constant(self.task, self.answer, self._gold)]

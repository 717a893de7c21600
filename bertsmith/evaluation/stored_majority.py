"""The baseline of an evaluation: always the most frequent answer of the training examples.

Answers are compared as *gold keys*: a gold key is the right answer of an example as a string that
can be counted, such as the label of a text (`Baselines.gold_keys` in tasks/baseline.py).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bertsmith.tasks.baseline import Baseline
from bertsmith.tasks.scoring import Outcome
from bertsmith.tasks.task import Task


class StoredMajority:
    """Callback of `evaluate`, which scores the method that always gives the same answer.

    The answer is the most frequent one of the training examples, which run.json stores.

    Args:
        run: the content of run.json in the model's folder, which may be damaged.
    """

    def __init__(self, task: Task[Any, Any], run: Mapping[str, Any]) -> None:
        result = run.get("result")
        stored = result.get("baselines") if isinstance(result, Mapping) else None
        rows = stored if isinstance(stored, list) else []
        tables = [row for row in rows if isinstance(row, Mapping)]
        answers = [table.get("answer") for table in tables if table.get("key") == "majority"]
        self.task = task
        is_key = task.baselines.is_gold_key  # whether a string has the form of the task's keys
        of_task = (answer for answer in answers if isinstance(answer, str) and is_key(answer))
        self.answer = next(of_task, None)
        self._gold: Counter[str] = Counter()

    def add(self, examples: Sequence[Any], outcomes: Sequence[Outcome]) -> None:
        if self.answer is not None:
            self._gold.update(self.task.baselines.gold_keys(self.task, examples))

    def baselines(self) -> list[Baseline]:
        """Return the baseline with its scores on the examples that were added.

        The list is empty if run.json has no most frequent answer, or if no example has a gold key.
        """
        if self.answer is None or not self._gold:
            return []
        return [self.task.baselines.score_constant(self.task, self.answer, self._gold)]

"""The baseline of an evaluation: always the most frequent answer of the training examples.

A baseline is a simple method, whose scores are shown beside those of the model. Answers are
compared as *gold keys*: a gold key is the right answer of an example as a string that can be
counted, such as the label of a text (`Baselines.gold_keys` in tasks/baseline.py).
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
        task: the task of the model.
        run: the content of run.json in the model's folder, which may be damaged.
    """

    def __init__(self, task: Task[Any, Any], run: Mapping[str, Any]) -> None:
        self.task = task
        self.answer = _majority_answer(task, run)
        self._gold: Counter[str] = Counter()

    def add(self, examples: Sequence[Any], outcomes: Sequence[Outcome]) -> None:
        """Count the right answers of some examples."""
        if self.answer is not None:
            self._gold.update(self.task.baselines.gold_keys(self.task, examples))

    def baselines(self) -> list[Baseline]:
        """Return the baseline with its scores on the examples that were added.

        The list is empty if run.json has no most frequent answer, or if no example has a gold key.
        """
        if self.answer is None or not self._gold:
            return []
        return [self.task.baselines.score_constant(self.task, self.answer, self._gold)]


def _majority_answer(task: Task[Any, Any], run: Mapping[str, Any]) -> str | None:
    """Return the gold key of the most frequent answer that run.json stores; None without one."""
    result = run.get("result")
    baselines = result.get("baselines") if isinstance(result, Mapping) else None
    for row in baselines if isinstance(baselines, list) else ():
        if not isinstance(row, Mapping) or row.get("key") != "majority":
            continue
        answer = row.get("answer")
        if isinstance(answer, str) and task.baselines.is_gold_key(answer):
            return answer
    return None

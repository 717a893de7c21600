"""The plain method that a model which chooses among several texts has to beat."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bertsmith.data.multiple_choice import ChoiceExample
from bertsmith.tasks.baseline import Baseline, Baselines


class ChoiceBaselines(Baselines):
    """The place among the choices that most often has the right one, such as always the first."""

    def gold_keys(self, task: Any, examples: Sequence[ChoiceExample]) -> list[str]:
        return [str(example.label) for example in examples]

    def score_constant(self, task: Any, answer: str, gold: Mapping[str, int]) -> Baseline:
        method = f"always choice number {int(answer) + 1}"
        return replace(super().score_constant(task, answer, gold), method=method)

"""The baseline of multiple choice."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bertsmith.data.multiple_choice import ChoiceExample
from bertsmith.tasks.baseline import Baseline, Baselines


class ChoiceBaselines(Baselines):
    """Always the choice in the position that is most often right, such as the first."""

    def gold_keys(self, task: Any, examples: Sequence[ChoiceExample]) -> list[str]:
        """Return the number of each example's right choice, from 0, as a string."""
        return [str(example.label) for example in examples]

    def is_gold_key(self, text: str) -> bool:
        return text.isascii() and text.isdecimal()

    def score_constant(self, task: Any, answer: str, gold: Mapping[str, int]) -> Baseline:
        method = f"always choice number {int(answer) + 1}"
        return replace(super().score_constant(task, answer, gold), method=method)

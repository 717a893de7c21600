"""The baseline of sentence embeddings: the vectors that fine-tuning has to improve."""

from collections.abc import Mapping, Sequence
from typing import Any

from bertsmith.tasks.baseline import Baseline, Baselines


class VectorBaselines(Baselines):
    """The cosines of the model's own vectors before fine-tuning."""

    def score_cheap(
        self,
        task: Any,
        train: Sequence[Any],
        held_out: Sequence[Any],
        initial_scores: Mapping[str, float],
    ) -> list[Baseline]:
        # The evaluation before training has scored the cosines already, unless it was left out.
        if not initial_scores:
            return []
        return [Baseline("cosine", "cosine of the vectors before fine-tuning", initial_scores)]

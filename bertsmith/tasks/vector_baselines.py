"""The baseline of sentence embeddings."""

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
        before: Mapping[str, float],
    ) -> list[Baseline]:
        method = "cosine of the vectors before fine-tuning"
        return [Baseline("cosine", method, before)] if before else []

"""The baselines of regression: simple methods that a model must beat."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertsmith.data.examples import Example
from bertsmith.data.labels import numeric_labels
from bertsmith.metrics.regression import rmse
from bertsmith.system.compute import InferenceCompute
from bertsmith.system.counts import format_number
from bertsmith.tasks.baseline import Baseline, Baselines
from bertsmith.tasks.checked_examples import CHECKED_EXAMPLES
from bertsmith.tasks.cosine_baseline import score_cosines


class NumberBaselines(Baselines):
    """The mean of the training labels, and for pairs the cosine of the two texts' vectors.

    The mean is scored by RMSE alone, since a constant has no correlation with anything.
    """

    def score_cheap(
        self,
        task: Any,
        train: Sequence[Example],
        held_out: Sequence[Example],
        initial_scores: Mapping[str, float],
    ) -> list[Baseline]:
        # The labels were checked when they were read, so no error names the placeholder of a file.
        mean = float(numeric_labels(train, CHECKED_EXAMPLES).mean())
        gold = numeric_labels(held_out, CHECKED_EXAMPLES)
        method = f"always {format_number(mean)}, the mean of training"
        return [Baseline("mean", method, {"rmse": rmse(gold, np.full(len(gold), mean))})]

    def score_costly(
        self,
        task: Any,
        train: Sequence[Example],
        held_out: Sequence[Example],
        model: Path,
        compute: InferenceCompute,
    ) -> list[Baseline]:
        if not held_out or held_out[0].pair is None:
            return []
        baseline = score_cosines(held_out, model, compute)
        return [] if baseline is None else [baseline]

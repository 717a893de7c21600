"""The baseline of a regression on pairs of texts: the cosine of their vectors."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bertsmith.data.examples import Example
from bertsmith.errors import BertsmithError
from bertsmith.metrics.regression import pearson, spearman
from bertsmith.metrics.unit_vectors import unit_length
from bertsmith.system.compute import InferenceCompute
from bertsmith.tasks.baseline import Baseline
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.text_vectors import TextVectors

MAX_PAIRS = 1000
"""Largest number of pairs whose cosine is computed, from the first."""


def score_cosines(
    held_out: Sequence[Example], model: Path, compute: InferenceCompute
) -> Baseline | None:
    """Score the cosines of pairs by vectors of the folder `model`, before it is fine-tuned.

    The vectors are means over tokens unless the folder names another pooling. The scores are
    correlations of the cosines with the pairs' labels. The result is None if the vectors cannot be
    computed: the folder no longer exists, for example, or its pooling is not supported.
    """
    try:
        # `TextVectors` is the use of a model that gives a vector for each text.
        encoder = Predictor.load(
            model, TextVectors, device=compute.device, precision=compute.precision
        )
        encoder.unknown_tokens.is_reported = True  # a warning came before training
        pairs = held_out[:MAX_PAIRS]
        vectors = encoder.encode(
            [text for example in pairs for text in (example.text, example.pair or "")]
        )
    except BertsmithError:  # a run should not fail because a baseline cannot be computed
        return None
    units = unit_length(vectors).astype(np.float64)
    # First texts have even indices, second texts odd ones.
    cosines = (units[0::2] * units[1::2]).sum(axis=1)
    gold = np.array([float(str(example.label)) for example in pairs], np.float64)
    method = "cosine of the model's vectors before fine-tuning"
    if len(pairs) < len(held_out):
        method += f" (of the first {len(pairs):,} pairs)"
    scores = {"pearson": pearson(gold, cosines), "spearman": spearman(gold, cosines)}
    return Baseline("cosine", method, scores)

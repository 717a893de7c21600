"""Scores of labels, for the routes of all contracts."""

import numpy as np

from bertsmith.serving.messages import Answers, ModelInfo


def label_scores(
    model: ModelInfo, answers: Answers, *, raw: bool = False
) -> list[list[tuple[str, float]]]:
    """Return for each text the pairs (label, score) of all labels, the best first.

    A score is a probability, or with `raw` a logit. A regression model has one score, the number
    that it predicts.
    """
    names = model.labels
    if model.is_regression:
        names = model.labels[:1] or ("LABEL_0",)  # the name that transformers gives
    rows = []
    for prediction, logits in zip(answers.predictions, answers.raw, strict=True):
        if raw:
            scores = np.asarray(logits, dtype=np.float64)
        elif model.is_regression:
            scores = np.array([prediction.value])
        else:
            scores = np.array(list(prediction.probabilities.values()))  # in the order of `names`
        order = np.argsort(-scores, kind="stable")
        rows.append([(names[index], float(scores[index])) for index in order.tolist()])
    return rows

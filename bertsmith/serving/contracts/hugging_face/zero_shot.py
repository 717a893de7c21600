"""Zero-shot classification: labels on which the model was not trained."""

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bertsmith.serving.call import Call
from bertsmith.serving.contracts.hugging_face.body import HubOptions
from bertsmith.serving.contracts.texts import check_texts
from bertsmith.serving.messages import ModelInfo
from bertsmith.serving.problems import empty, invalid
from bertsmith.serving.text_field import TextField
from bertsmith.tasks.probabilities import softmax64


class ZeroShotParameters(Struct, forbid_unknown_fields=True, frozen=True):
    """Parameters of zero-shot classification."""

    candidate_labels: list[str] | str
    multi_label: bool = False
    hypothesis_template: str = "This example is {}."


class ZeroShotBody(Struct, forbid_unknown_fields=True):
    """Body of zero-shot classification."""

    inputs: str | list[str]
    parameters: ZeroShotParameters
    options: HubOptions | None = None


async def classify_zero_shot(call: Call, model: ModelInfo, body: ZeroShotBody) -> Any:
    """Score labels by a model of entailment that was not trained on them, the best label first.

    Each label is put into a sentence (Yin et al. 2019), and its score is the probability that the
    text entails the sentence. The probabilities of all labels add up to 1. With `multi_label`, or
    with one label, a label's entailment is compared with its contradiction instead.

    Raises:
        Problem: 422 if the model has no label for entailment or reads no pairs, or 400 without
            labels.
    """
    entailment = _index_of(model, "entail")
    if entailment is None:
        names = ", ".join(model.labels)
        raise invalid(
            f"candidate_labels: '{model.name}' has the labels {names}, and none for entailment. "
            "Serve a model that was trained on natural language inference, such as MNLI."
        )
    if model.reads_pairs is False:
        raise invalid(
            f"candidate_labels: '{model.name}' was trained on single texts, and labels need a "
            "model that reads a text with a sentence about it."
        )
    parameters = body.parameters
    labels = parameters.candidate_labels
    if isinstance(labels, str):
        labels = [label.strip() for label in labels.split(",") if label.strip()]
    if not labels:
        raise empty("parameters.candidate_labels: found none. Send at least one.")
    check_texts(labels, "parameters.candidate_labels")
    if "{}" not in parameters.hypothesis_template:
        raise invalid("parameters.hypothesis_template: write {} where the label belongs.")
    texts = check_texts(body.inputs)
    field = TextField.of("inputs", body.inputs)
    answers = await call.compute(
        model,
        "predict",
        [
            {"text": text, "pair": parameters.hypothesis_template.replace("{}", label)}
            for text in texts
            for label in labels
        ],
        field=TextField(
            "inputs and parameters.candidate_labels",
            lambda index: field.of_text(index // len(labels)),
        ),
    )
    logits = np.array(answers.raw).reshape(len(texts), len(labels), -1)
    if parameters.multi_label or len(labels) == 1:
        contradiction = _index_of(model, "contra")
        if contradiction is None:  # take the label at the other end, as transformers does
            contradiction = 0 if entailment else len(model.labels) - 1
        scores = softmax64(logits[:, :, [contradiction, entailment]])[:, :, 1]
    else:
        scores = softmax64(logits[:, :, entailment])
    rows = [_ranked(labels, of_text) for of_text in scores]
    return rows if isinstance(body.inputs, list) else rows[0]


def _ranked(labels: list[str], scores: NDArray[np.float64]) -> list[dict[str, Any]]:
    order = np.argsort(-scores, kind="stable").tolist()
    return [{"label": labels[index], "score": float(scores[index])} for index in order]


def _index_of(model: ModelInfo, beginning: str) -> int | None:
    for index, label in enumerate(model.labels):
        if label.lower().startswith(beginning):
            return index
    return None

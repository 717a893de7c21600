"""Zero-shot classification: labels that the model, one of entailment, was not trained on."""

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

BLANK = "{}"
"""Placeholder of the label in a hypothesis template, as in transformers."""


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
        Problem: 422 if the model has no label for entailment or reads no pairs, 400 without
            labels, or 413 if texts times labels are too many.
    """
    entailment_id = _find_label(model, "entail")
    if entailment_id is None:
        found = f"has the labels {', '.join(model.labels)}, and none for entailment"
        if not model.labels:
            found = "gives a number, and no label for entailment"
        raise invalid(
            f"parameters.candidate_labels: '{model.name}' {found}. Serve a model that was "
            "trained on natural language inference, such as MNLI."
        )
    if model.reads_pairs is False:
        raise invalid(
            f"parameters.candidate_labels: '{model.name}' was trained on single texts, and labels "
            "need a model that reads a text with a sentence about it."
        )
    parameters = body.parameters
    labels = parameters.candidate_labels
    if isinstance(labels, str):
        labels = [label.strip() for label in labels.split(",") if label.strip()]
    if not labels:
        raise empty("parameters.candidate_labels: found none. Send at least one.")
    check_texts(labels, "parameters.candidate_labels")
    template = parameters.hypothesis_template
    if BLANK not in template:
        raise invalid("parameters.hypothesis_template: write {} where the label belongs.")
    texts = check_texts(body.inputs)
    text_field = TextField.of("inputs", body.inputs)
    field = TextField(
        "inputs and parameters.candidate_labels",
        lambda index: text_field.of_text(index // len(labels)),
    )
    # Check before the pairs are built: a short request may mean more pairs than fit into memory.
    num_characters = count_pair_characters(texts, labels, template)
    call.service.check_size(len(texts) * len(labels), num_characters, field)
    answers = await call.compute(
        model,
        "predict",
        [
            {"text": text, "pair": template.replace(BLANK, label)}
            for text in texts
            for label in labels
        ],
        field=field,
    )
    logits = np.array(answers.raw).reshape(len(texts), len(labels), -1)
    if parameters.multi_label or len(labels) == 1:
        contradiction_id = _find_label(model, "contra")
        if contradiction_id is None:  # take the label at the other end, as transformers does
            contradiction_id = 0 if entailment_id else len(model.labels) - 1
        scores = softmax64(logits[:, :, [contradiction_id, entailment_id]])[:, :, 1]
    else:
        scores = softmax64(logits[:, :, entailment_id])
    rows = [_rank(labels, scores_of_text) for scores_of_text in scores]
    return rows if isinstance(body.inputs, list) else rows[0]


def count_pair_characters(texts: list[str], labels: list[str], template: str) -> int:
    """Count the characters of all pairs of a text and a label's sentence, without building them.

    >>> count_pair_characters(["abc", "d"], ["good", "bad"], "A {} film.")
    54
    """
    num_blanks = template.count(BLANK)
    num_fixed = len(template) - num_blanks * len(BLANK)
    of_sentences = sum(num_fixed + num_blanks * len(label) for label in labels)
    return len(labels) * sum(map(len, texts)) + len(texts) * of_sentences


def _rank(labels: list[str], scores: NDArray[np.float64]) -> list[dict[str, Any]]:
    """List the labels of one text with their scores, the best first."""
    order = np.argsort(-scores, kind="stable").tolist()
    return [{"label": labels[index], "score": float(scores[index])} for index in order]


def _find_label(model: ModelInfo, beginning: str) -> int | None:
    """Return the id of the first label that begins with `beginning`, in upper or lower case."""
    for label_id, label in enumerate(model.labels):
        if label.lower().startswith(beginning):
            return label_id
    return None

"""The choice of the task by the model's head."""

from collections.abc import Mapping
from typing import Any

from bertsmith.serving.call import Call
from bertsmith.serving.contracts.hugging_face.answers import answer_questions
from bertsmith.serving.contracts.hugging_face.choices import choices
from bertsmith.serving.contracts.hugging_face.classes import classes
from bertsmith.serving.contracts.hugging_face.masks import filled
from bertsmith.serving.contracts.hugging_face.tags import tags
from bertsmith.serving.contracts.hugging_face.vectors import vectors
from bertsmith.serving.contracts.hugging_face.zero_shot import ZeroShotBody, zero_shot
from bertsmith.serving.json_body import convert
from bertsmith.serving.messages import ModelInfo

HANDLERS = {
    "feature-extraction": vectors,
    "text-classification": classes,
    "token-classification": tags,
    "question-answering": answer_questions,
    "fill-mask": filled,
    "multiple-choice": choices,
}
"""The handler of each task, by the tag of its pipeline."""


async def answer_task(call: Call, model: ModelInfo, content: Mapping[str, Any]) -> Any:
    """Return the answer of the model's head, in the form of transformers' pipelines."""
    parameters = content.get("parameters")
    has_labels = isinstance(parameters, dict) and "candidate_labels" in parameters
    if model.task == "text-classification" and has_labels:
        return await zero_shot(call, model, convert(content, ZeroShotBody))
    return await HANDLERS[model.task](call, model, content)

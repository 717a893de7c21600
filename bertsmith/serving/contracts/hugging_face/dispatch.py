"""Choose the handler of a request by the task of the model."""

from collections.abc import Mapping
from typing import Any

from bertsmith.serving.call import Call
from bertsmith.serving.contracts.hugging_face.answers import answer_questions
from bertsmith.serving.contracts.hugging_face.choices import choose
from bertsmith.serving.contracts.hugging_face.classes import classify
from bertsmith.serving.contracts.hugging_face.masks import fill_masks
from bertsmith.serving.contracts.hugging_face.tags import tag_words
from bertsmith.serving.contracts.hugging_face.vectors import extract_features
from bertsmith.serving.contracts.hugging_face.zero_shot import ZeroShotBody, classify_zero_shot
from bertsmith.serving.json_body import convert
from bertsmith.serving.messages import ModelInfo

HANDLERS = {
    "feature-extraction": extract_features,
    "text-classification": classify,
    "token-classification": tag_words,
    "question-answering": answer_questions,
    "fill-mask": fill_masks,
    "multiple-choice": choose,
}
"""The handler of each task, by the tag of its pipeline."""


async def answer_task(call: Call, model: ModelInfo, content: Mapping[str, Any]) -> Any:
    """Answer by the handler of the model's task, in the form of transformers' pipelines."""
    parameters = content.get("parameters")
    has_labels = isinstance(parameters, dict) and "candidate_labels" in parameters
    if model.task == "text-classification" and has_labels:
        return await classify_zero_shot(call, model, convert(content, ZeroShotBody))
    return await HANDLERS[model.task](call, model, content)

"""The routes, and the choice of the task by the model's head."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from bertsmith.serving.call import Call, answer_json, endpoint
from bertsmith.serving.contracts.hugging_face.answers import answers_in
from bertsmith.serving.contracts.hugging_face.body import convert, read_object
from bertsmith.serving.contracts.hugging_face.choices import choices
from bertsmith.serving.contracts.hugging_face.classes import classes
from bertsmith.serving.contracts.hugging_face.masks import filled
from bertsmith.serving.contracts.hugging_face.tags import tags
from bertsmith.serving.contracts.hugging_face.vectors import vectors
from bertsmith.serving.contracts.hugging_face.zero_shot import ZeroShotBody, zero_shot
from bertsmith.serving.problems import Problem
from bertsmith.serving.service import Service

HANDLERS = {
    "feature-extraction": vectors,
    "text-classification": classes,
    "token-classification": tags,
    "question-answering": answers_in,
    "fill-mask": filled,
    "multiple-choice": choices,
}
"""The handler of each task, by the tag of its pipeline."""


def hugging_face_routes(service: Service) -> list[Route]:
    """Return the routes."""
    respond = endpoint(service, answer, method="task", problem_format=Problem.to_json)
    paths = ("/", "/models/{model}", "/invocations", "/predictions")
    return [Route(path, respond, methods=["POST"]) for path in paths]


async def answer(call: Call) -> Response:
    """Answer by the model's head."""
    content = read_object(await call.read())
    model = call.model
    if model.task == "text-classification" and "candidate_labels" in _parameters(content):
        return answer_json(await zero_shot(call, model, convert(content, ZeroShotBody)))
    handler = HANDLERS[model.task]
    return answer_json(await handler(call, model, content))


def _parameters(content: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = content.get("parameters")
    return parameters if isinstance(parameters, dict) else {}

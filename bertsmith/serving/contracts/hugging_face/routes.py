"""The routes to which InferenceClient posts, and two paths that clients of other servers use."""

from starlette.responses import Response
from starlette.routing import Route

from bertsmith.serving.call import Call, answer_json, endpoint
from bertsmith.serving.contracts.hugging_face.body import read_object
from bertsmith.serving.contracts.hugging_face.dispatch import answer_task
from bertsmith.serving.problems import Problem
from bertsmith.serving.service import Service


def hugging_face_routes(service: Service) -> list[Route]:
    """Return the routes."""
    respond = endpoint(service, answer, metric_label="task", problem_format=Problem.to_json)
    paths = ("/", "/models/{model}", "/invocations", "/predictions")
    return [Route(path, respond, methods=["POST"]) for path in paths]


async def answer(call: Call) -> Response:
    """Answer by the model's head."""
    content = read_object(await call.read())
    return answer_json(await answer_task(call, call.model, content))

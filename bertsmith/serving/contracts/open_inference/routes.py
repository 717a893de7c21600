"""The list of routes of Open Inference (v2) and of KServe's first protocol."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bertsmith.serving.call import Handler, answer_json, endpoint
from bertsmith.serving.contracts.open_inference.infer import infer
from bertsmith.serving.contracts.open_inference.instances import (
    answer_description,
    predict_instances,
)
from bertsmith.serving.contracts.open_inference.metadata import (
    answer_metadata,
    answer_ready,
    answer_server,
)
from bertsmith.serving.contracts.openai import problem_json
from bertsmith.serving.problems import Problem
from bertsmith.serving.service import Service


def open_inference_routes(service: Service) -> list[Route]:
    """Return the routes of both protocols."""

    def route(path: str, handler: Handler, method: str = "GET") -> Route:
        respond = endpoint(service, handler, metric_label="infer", problem_format=error_json)
        return Route(path, respond, methods=[method])

    async def live(request: Request) -> Response:
        return answer_json({"live": True})

    async def ready(request: Request) -> Response:
        response = answer_json({"live": True, "ready": service.is_ready})
        response.status_code = 200 if service.is_ready else 503
        return response

    routes_of_models = []
    for prefix in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
        routes_of_models += [
            route(prefix, answer_metadata),
            route(f"{prefix}/ready", answer_ready),
            route(f"{prefix}/infer", infer, "POST"),
        ]
    return [
        Route("/v2/health/live", live),
        Route("/v2/health/ready", ready),
        route("/v2", answer_server),
        *routes_of_models,
        route("/v1/models/{model}:predict", predict_instances, "POST"),
        Route(  # clients of OpenAI's API ask this path, too, so its errors are written as theirs
            "/v1/models/{model}",
            endpoint(
                service, answer_description, metric_label="infer", problem_format=problem_json
            ),
        ),
    ]


def error_json(problem: Problem) -> dict[str, Any]:
    """Write a problem as the protocol does."""
    return {"error": problem.message}

"""The list of routes of both protocols."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bertsmith.serving.call import answer_json, endpoint
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

    def route(path: str, handler: Any, *methods: str) -> Route:
        respond = endpoint(service, handler, method="infer", problem_format=error_json)
        return Route(path, respond, methods=list(methods or ("GET",)))

    async def live(request: Request) -> Response:
        return answer_json({"live": True})

    async def ready(request: Request) -> Response:
        response = answer_json({"live": True, "ready": service.is_ready})
        response.status_code = 200 if service.is_ready else 503
        return response

    model = "/v2/models/{model}"
    return [
        Route("/v2/health/live", live),
        Route("/v2/health/ready", ready),
        route("/v2", answer_server),
        *(
            route(f"{prefix}{path}", handler, *methods)
            for prefix in (model, f"{model}/versions/{{version}}")
            for path, handler, *methods in (
                ("", answer_metadata),
                ("/ready", answer_ready),
                ("/infer", infer, "POST"),
            )
        ),
        route("/v1/models/{model}:predict", predict_instances, "POST"),
        Route(
            "/v1/models/{model}",
            endpoint(service, answer_description, method="infer", problem_format=problem_json),
        ),
    ]


def error_json(problem: Problem) -> dict[str, Any]:
    """Write a problem as the protocol does."""
    return {"error": problem.message}

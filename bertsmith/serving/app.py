"""The ASGI application of a server: all routes, the check of the key, and `/info`.

The routes of other servers' clients come from `contracts/`; those that describe the server are
here.
"""

import hmac
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from bertsmith._version import __version__
from bertsmith.serving.call import answer_json
from bertsmith.serving.client_text import clip_text
from bertsmith.serving.contracts.hugging_face.routes import hugging_face_routes
from bertsmith.serving.contracts.open_inference.routes import open_inference_routes
from bertsmith.serving.contracts.openai import is_openai_path, openai_routes, problem_json
from bertsmith.serving.contracts.text_embeddings_inference.routes import (
    text_embeddings_inference_routes,
)
from bertsmith.serving.heads import is_reranker
from bertsmith.serving.messages import ModelInfo
from bertsmith.serving.open_paths import needs_key
from bertsmith.serving.openapi import description_routes
from bertsmith.serving.page import answer_page
from bertsmith.serving.problems import Problem, unhealthy
from bertsmith.serving.service import Service


def create_app(service: Service, *, api_key: str | None = None) -> ASGIApp:
    """Build the application.

    A service that has not been started is started with the application. Any service is stopped when
    the application ends.

    Args:
        api_key: the key that clients must send as `Authorization: Bearer KEY`; None if they need
            no key.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        if not service.is_ready:
            await service.start()
        yield
        await service.stop()

    routes = [
        *own_routes(service),
        *text_embeddings_inference_routes(service),
        *openai_routes(service),
        *open_inference_routes(service),
        *hugging_face_routes(service),
    ]
    app = Starlette(
        routes=[*routes, *description_routes(routes, has_key=api_key is not None)],
        lifespan=lifespan,
        exception_handlers={HTTPException: _unknown_route, Exception: _fault},
    )
    # A client would follow a redirect with GET in place of POST, or not at all.
    app.router.redirect_slashes = False
    return app if api_key is None else KeyCheck(app, api_key)


class KeyCheck:
    """An application that passes on a request if its key is right, or if it needs no key."""

    def __init__(self, app: ASGIApp, api_key: str) -> None:
        self.app = app
        # Bytes of the command line or environment that are not UTF-8 are half surrogates in Python.
        self._key = api_key.encode(errors="surrogateescape")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and needs_key(scope["method"], scope["path"]):
            authorization = dict(scope["headers"]).get(b"authorization", b"")
            scheme, _, key = authorization.partition(b" ")
            is_right = hmac.compare_digest(key.lstrip(b" "), self._key)
            if scheme.lower() != b"bearer" or not is_right:
                problem = Problem(
                    401,
                    "Unauthorized",
                    "the key is missing or wrong. Send the header 'Authorization: Bearer KEY'.",
                    {"WWW-Authenticate": "Bearer"},
                )
                response = _answer_problem(problem, scope["path"], problem.headers)
                await response(scope, receive, send)
                return
        await self.app(scope, receive, send)


def own_routes(service: Service) -> list[Route]:
    """Return the routes that describe the server and its models."""

    async def health(request: Request) -> Response:
        name = request.path_params.get("model")
        # Before the models are loaded, their names are not known, so the answer is "not ready".
        if service.is_ready and name is not None and name not in service.models:
            return await info(request)  # answers with status 404
        if service.is_ready:
            return Response(status_code=200)
        problem = unhealthy(service.why_not_ready)
        response = answer_json(problem.to_json(), problem.headers)
        response.status_code = problem.status
        return response

    async def metrics(request: Request) -> Response:
        return Response(service.metrics.as_text(), media_type="text/plain; version=0.0.4")

    async def info(request: Request) -> Response:
        try:
            model = service.model(request.path_params.get("model"))
        except Problem as problem:
            response = answer_json(problem.to_json())
            response.status_code = problem.status
            return response
        return answer_json(served_info(service, model))

    async def models(request: Request) -> Response:
        data = [
            {"id": model.name, "object": "model", "created": 0, "owned_by": "local"}
            for model in service.models.values()
        ]
        return answer_json({"object": "list", "data": data})

    return [
        Route("/", answer_page),
        Route("/models/{model}", answer_page),
        Route("/health", health),
        Route("/ping", health),
        Route("/metrics", metrics),
        Route("/info", info),
        Route("/models/{model}/info", info),
        Route("/models/{model}/health", health),
        Route("/v1/models", models),
        Route("/models", models),
    ]


def served_info(service: Service, model: ModelInfo) -> dict[str, Any]:
    """Describe a model and the limits of the server, as text-embeddings-inference does.

    Its fields that this server has no value for are None or constant. Further fields, from `task`
    on, say how the model computes.
    """
    limits = service.limits
    return {
        # A path may have bytes that are not UTF-8, which JSON cannot hold.
        "model_id": model.path.encode(errors="backslashreplace").decode(),
        "model_sha": None,
        "model_dtype": {"fp32": "float32", "bf16": "bfloat16"}.get(
            model.precision, model.precision
        ),
        "served_model_name": model.name,
        "model_type": _model_type(model),
        "max_concurrent_requests": limits.max_queue,
        "max_input_length": model.max_length,
        "max_batch_tokens": service.max_batch_tokens,
        "max_batch_requests": None,
        "max_client_batch_size": limits.max_texts,
        "auto_truncate": True,
        "tokenization_workers": 1,
        "version": __version__,
        "sha": None,
        "docker_label": None,
        "task": model.task,
        "architecture": model.model_type,
        "labels": list(model.labels),
        "reads_pairs": model.reads_pairs,
        "is_regression": model.is_regression,
        "mask_token": _mask_token(service, model),
        "hidden_size": model.hidden_size,
        "pooling": model.pooling,
        "prompts": dict(model.prompts),
        "precision": model.precision,
        "threads": model.num_threads,
        "device": model.device_name,
        "has_changed_on_disk": service.has_changed(model),
    }


def _mask_token(service: Service, model: ModelInfo) -> str | None:
    """Return the mask token, if the model predicts masked tokens."""
    return service.tokenizer(model.name).mask_token if model.task == "fill-mask" else None


def _model_type(model: ModelInfo) -> dict[str, Any]:
    """Describe the kind of a model in the form of text-embeddings-inference.

    It is an object of one field, such as `{"embedding": {"pooling": "mean"}}`. For tasks that
    text-embeddings-inference does not have, the field is the task.
    """
    if is_reranker(model):
        return {"reranker": _label_ids(model)}
    if model.task == "text-classification":
        return {"classifier": _label_ids(model)}
    if model.pooling is not None:
        pooling = {"first_token": "cls"}.get(model.pooling, model.pooling)
        return {"embedding": {"pooling": pooling}}
    return {model.task: _label_ids(model)}


def _label_ids(model: ModelInfo) -> dict[str, Any]:
    return {
        "id2label": {str(id_): label for id_, label in enumerate(model.labels)},
        "label2id": {label: id_ for id_, label in enumerate(model.labels)},
    }


async def _unknown_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    full_path = request.scope["path"]
    path = clip_text(full_path)
    sentences = {
        404: f"there is no route {path} here. GET /openapi.json lists the routes.",
        405: f"{path} does not take {request.method}.",
    }
    problem = Problem(
        error.status_code, "Validation", sentences.get(error.status_code, str(error.detail))
    )
    return _answer_problem(problem, full_path, error.headers)


def _answer_problem(
    problem: Problem, path: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer a request that reached no route, in the form that clients of its path expect."""
    content = problem_json(problem) if is_openai_path(path) else problem.to_json()
    response = answer_json(content, headers)
    response.status_code = problem.status
    return response


async def _fault(request: Request, error: Exception) -> Response:
    """Answer a request that failed by a bug of this program; the server prints the traceback."""
    problem = Problem(500, "Backend", "the request failed by a bug of the server; see its log.")
    return _answer_problem(problem, request.scope["path"])

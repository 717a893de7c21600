"""OpenAI's route for embeddings, for its own client and for others.

By default OpenAI's client requests base64: the encoded bytes of little-endian fp32 numbers.
"""

import base64
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct
from starlette.responses import Response
from starlette.routing import Route

from bertsmith.serving.call import Call, answer_json, endpoint
from bertsmith.serving.contracts.texts import Input, check_texts
from bertsmith.serving.contracts.vectors import VectorOptions, embed_texts
from bertsmith.serving.problems import Problem
from bertsmith.serving.service import Service
from bertsmith.serving.text_field import TextField


class EmbeddingsBody(Struct, forbid_unknown_fields=True):
    """Body of /v1/embeddings."""

    input: Input
    model: str | None = None
    user: str | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Meta(ge=1)] | None = None


def openai_routes(service: Service) -> list[Route]:
    """Return the routes."""
    respond = endpoint(service, embeddings, metric_label="openai", problem_format=problem_json)
    return [Route(path, respond, methods=["POST"]) for path in ("/v1/embeddings", "/embeddings")]


def is_openai_path(path: str) -> bool:
    """Return whether a client of OpenAI may have sent a request to this path."""
    # KServe's first protocol has /v1/models/NAME:predict.
    return path == "/embeddings" or (path.startswith("/v1/") and not path.endswith(":predict"))


def problem_json(problem: Problem) -> dict[str, Any]:
    """Write a problem as OpenAI's clients read it."""
    kind = "server_error" if problem.status >= 500 else "invalid_request_error"
    return {
        "error": {
            "message": problem.message,
            "type": "rate_limit_error" if problem.status == 429 else kind,
            "param": None,
            "code": problem.error_type,
        }
    }


async def embeddings(call: Call) -> Response:
    """Answer with the vector of each text, as numbers or as base64."""
    body = await call.body(EmbeddingsBody)
    model = call.model_for_vectors(body.model)
    call.check_kind(model, "vectors", "/v1/embeddings")
    texts = check_texts(body.input, "input")
    options = VectorOptions(dimensions=body.dimensions)
    field = TextField.of("input", body.input)
    vectors = await embed_texts(call, model, texts, options, field)
    if body.encoding_format == "base64":
        rows: list[Any] = [
            base64.b64encode(np.ascontiguousarray(vector, dtype="<f4").tobytes()).decode("ascii")
            for vector in vectors
        ]
    else:
        rows = list(vectors)
    num_tokens = call.num_tokens
    return answer_json(
        {
            "object": "list",
            "data": [
                {"object": "embedding", "index": index, "embedding": row}
                for index, row in enumerate(rows)
            ],
            "model": model.name,
            "usage": {"prompt_tokens": num_tokens, "total_tokens": num_tokens},
        }
    )

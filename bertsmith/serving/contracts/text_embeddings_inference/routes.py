"""The list of routes of text-embeddings-inference."""

from starlette.routing import Route

from bertsmith.serving.call import endpoint
from bertsmith.serving.contracts.text_embeddings_inference.embed import (
    answer_embed,
    answer_embed_all,
    answer_similarity,
)
from bertsmith.serving.contracts.text_embeddings_inference.predict import predict
from bertsmith.serving.contracts.text_embeddings_inference.rerank import rerank
from bertsmith.serving.contracts.text_embeddings_inference.tokenize import decode, tokenize
from bertsmith.serving.problems import Problem
from bertsmith.serving.service import Service


def text_embeddings_inference_routes(service: Service) -> list[Route]:
    """Return the routes, for the first model and for a model that the path names."""
    handlers = {
        "embed": answer_embed,
        "embed_all": answer_embed_all,
        "predict": predict,
        "rerank": rerank,
        "similarity": answer_similarity,
        "tokenize": tokenize,
        "decode": decode,
    }
    return [
        Route(
            f"{prefix}/{name}",
            endpoint(service, handler, metric_label=name, problem_format=Problem.to_json),
            methods=["POST"],
        )
        for prefix in ("", "/models/{model}")
        for name, handler in handlers.items()
    ]

"""Descriptions of all routes, with examples: the source of /openapi.json and /docs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bertsmith.serving.answer_types import (
    EmbeddingList,
    LabelledEntity,
    MaskToken,
    PassageAnswer,
    RankedText,
    ScoredChoice,
    ScoredLabel,
    TextToken,
)
from bertsmith.serving.contracts.hugging_face.answers import AnswerBody
from bertsmith.serving.contracts.hugging_face.choices import ChoiceBody
from bertsmith.serving.contracts.hugging_face.classes import ClassBody
from bertsmith.serving.contracts.hugging_face.masks import FillBody
from bertsmith.serving.contracts.hugging_face.tags import TagBody
from bertsmith.serving.contracts.hugging_face.vectors import VectorsBody
from bertsmith.serving.contracts.hugging_face.zero_shot import ZeroShotBody
from bertsmith.serving.contracts.open_inference.answer_types import (
    InferAnswer,
    PredictionsAnswer,
)
from bertsmith.serving.contracts.open_inference.infer import InferBody
from bertsmith.serving.contracts.open_inference.instances import InstancesBody
from bertsmith.serving.contracts.openai import EmbeddingsBody
from bertsmith.serving.contracts.similarities import SimilarityBody
from bertsmith.serving.contracts.text_embeddings_inference.embed import EmbedAllBody, EmbedBody
from bertsmith.serving.contracts.text_embeddings_inference.predict import PredictBody
from bertsmith.serving.contracts.text_embeddings_inference.rerank import RerankBody
from bertsmith.serving.contracts.text_embeddings_inference.tokenize import DecodeBody, TokenizeBody

ERRORS: Mapping[int, str] = {
    400: "The body is not JSON, or has no text.",
    401: "The key is missing or wrong.",
    404: "There is no model of this name.",
    408: "The body did not arrive in time. Send it again.",
    413: "There are too many texts or characters, or the body or the answer would be too large. "
    "Divide the request.",
    415: "The body is compressed. Send it as it is.",
    422: "A field is missing, unknown or of another type, or a text is too long.",
    424: "The model's head cannot answer this route, or the model could not compute the text.",
    429: "The server is busy. Send the request again after the seconds of Retry-After.",
    503: "The process that computes is started again, the server is stopping, or the request took "
    "too long. Send it again after the seconds of Retry-After.",
}
"""For each status of HTTP, what is wrong and what to do."""

TEXT_ERRORS = (400, 404, 408, 413, 415, 422, 424, 429, 503)
"""Statuses of routes that a model answers."""
TOKEN_ERRORS = (400, 404, 408, 413, 415, 422, 429, 503)
"""Statuses of routes that need only the tokenizer."""


@dataclass(frozen=True)
class RouteExample:
    """A request with its answer.

    Args:
        name: what the request sends, such as "a text and two others".
        model: the kind of model that answers it: a pipeline tag of transformers, "rerank",
            "entailment" or "any". Tests send the request to such a model.
        body: the type of the request's body.
        answer_type: the type of the answer.
    """

    name: str
    model: str
    body: type[Any]
    request: Mapping[str, Any]
    answer_type: Any
    answer: Any


@dataclass(frozen=True)
class Operation:
    """A route and what it answers.

    Args:
        errors: the statuses of HTTP that it answers with besides 200 and, without the key, 401.
        content: media type of the answer of a route without examples; empty for no content.
    """

    group: str
    summary: str
    examples: tuple[RouteExample, ...] = ()
    errors: tuple[int, ...] = ()
    content: str = "application/json"


# Kinds of models, as in `RouteExample.model`, that answer several routes.
CLASSES = "text-classification"
VECTORS = "feature-extraction"
# Groups of routes, the headings of the page.
EMBED = "Vectors and classes"
HEADS = "By the model's head"
INFERENCE = "Open Inference (v2) and KServe"
SERVER = "The server"
# Texts and answers of several examples.
TEXT = "A gripping story, beautifully told."
SCORED = [{"score": 0.9496, "label": "1"}, {"score": 0.0504, "label": "0"}]
VECTOR = [[0.0263, -0.0417, 0.0385]]

OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("POST", "/predict"): Operation(
        EMBED,
        "Classes or a number for a text, a pair of texts, or several of them",
        (
            RouteExample(
                "a text", CLASSES, PredictBody, {"inputs": TEXT}, list[ScoredLabel], SCORED
            ),
            RouteExample(
                "a text, and a pair of texts",
                CLASSES,
                PredictBody,
                {"inputs": [[TEXT], [TEXT, "A dull film."]]},
                list[list[ScoredLabel]],
                [SCORED, SCORED],
            ),
        ),
        TEXT_ERRORS,
    ),
    ("POST", "/rerank"): Operation(
        EMBED,
        "Texts in the order of the scores that a model gives them with a query",
        (
            RouteExample(
                "a query and two texts",
                "rerank",
                RerankBody,
                {"query": "Which film is good?", "texts": ["A dull film.", TEXT]},
                list[RankedText],
                [{"index": 1, "score": 0.9211}, {"index": 0, "score": 0.0032}],
            ),
        ),
        TEXT_ERRORS,
    ),
    ("POST", "/embed"): Operation(
        EMBED,
        "A vector for each text",
        (
            RouteExample(
                "a text", VECTORS, EmbedBody, {"inputs": TEXT}, list[list[float]], VECTOR
            ),
        ),
        TEXT_ERRORS,
    ),
    ("POST", "/embed_all"): Operation(
        EMBED,
        "A vector for each token of each text",
        (
            RouteExample(
                "a text",
                VECTORS,
                EmbedAllBody,
                {"inputs": "A story."},
                list[list[list[float]]],
                [[[0.1011, -0.2307], [0.0875, -0.1402]]],
            ),
        ),
        TEXT_ERRORS,
    ),
    ("POST", "/similarity"): Operation(
        EMBED,
        "How similar each of several texts is to one text",
        (
            RouteExample(
                "a text and two others",
                VECTORS,
                SimilarityBody,
                {"inputs": {"source_sentence": TEXT, "sentences": ["A good film.", "Rain."]}},
                list[float],
                [0.4103, 0.0621],
            ),
        ),
        TEXT_ERRORS,
    ),
    ("POST", "/v1/embeddings"): Operation(
        EMBED,
        "A vector for each text, as OpenAI's clients ask for them",
        (
            RouteExample(
                "a text",
                VECTORS,
                EmbeddingsBody,
                {"input": TEXT, "model": "any"},
                EmbeddingList,
                {
                    "object": "list",
                    "data": [{"object": "embedding", "index": 0, "embedding": VECTOR[0]}],
                    "model": "encoder",
                    "usage": {"prompt_tokens": 9, "total_tokens": 9},
                },
            ),
        ),
        TEXT_ERRORS,
    ),
    ("POST", "/"): Operation(
        HEADS,
        "What the model's head says, in the form of transformers' pipelines",
        (
            RouteExample(
                "classes of a text",
                CLASSES,
                ClassBody,
                {"inputs": TEXT, "parameters": {"top_k": 1}},
                list[list[ScoredLabel]],
                [SCORED[:1]],
            ),
            RouteExample(
                "labels that the model was not trained for",
                "entailment",
                ZeroShotBody,
                {"inputs": TEXT, "parameters": {"candidate_labels": ["praise", "complaint"]}},
                list[ScoredLabel],
                [{"score": 0.9713, "label": "praise"}, {"score": 0.0287, "label": "complaint"}],
            ),
            RouteExample(
                "entities in a text",
                "token-classification",
                TagBody,
                {"inputs": "Angela lives in Berlin."},
                list[LabelledEntity],
                [
                    {"entity_group": "PER", "score": 0.998, "word": "Angela", "start": 0, "end": 6},
                    {"entity_group": "LOC", "score": 0.997, "word": "Berlin", "start": 16,
                     "end": 22},
                ],
            ),
            RouteExample(
                "the answer in a passage",
                "question-answering",
                AnswerBody,
                {"inputs": {"question": "Who lives here?", "context": "Angela lives here."}},
                PassageAnswer,
                {"answer": "Angela", "score": 0.9632, "start": 0, "end": 6},
            ),
            RouteExample(
                "a hidden word",
                "fill-mask",
                FillBody,
                {"inputs": "The acting is [MASK].", "parameters": {"top_k": 1}},
                list[MaskToken],
                [{"score": 0.0926, "token": 1203, "token_str": "bad",
                  "sequence": "the acting is bad."}],
            ),
            RouteExample(
                "the best of several choices",
                "multiple-choice",
                ChoiceBody,
                {"inputs": {"text": "He opened the door", "choices": ["and ate it.", "and left."]}},
                list[ScoredChoice],
                [
                    {"index": 1, "choice": "and left.", "score": 0.8817},
                    {"index": 0, "choice": "and ate it.", "score": 0.1183},
                ],
            ),
            RouteExample(
                "the vector of a text", VECTORS, VectorsBody, {"inputs": TEXT},
                list[list[float]], VECTOR,
            ),
        ),
        TEXT_ERRORS,
    ),
    ("POST", "/v2/models/{model}/infer"): Operation(
        INFERENCE,
        "Tensors of texts to tensors of answers, for the clients of Triton and KServe",
        (
            RouteExample(
                "two texts",
                CLASSES,
                InferBody,
                {"inputs": [{"name": "text", "shape": [2], "datatype": "BYTES",
                             "data": [TEXT, "A dull film."]}]},
                InferAnswer,
                {
                    "model_name": "sentiment",
                    "model_version": "1",
                    "outputs": [
                        {"name": "label", "datatype": "BYTES", "shape": [2], "data": ["1", "0"]},
                        {"name": "probabilities", "datatype": "FP64", "shape": [2, 2],
                         "data": [0.0504, 0.9496, 0.9317, 0.0683]},
                    ],
                },
            ),
        ),
        TEXT_ERRORS,
    ),
    ("GET", "/v2/models/{model}"): Operation(
        INFERENCE, "The names, datatypes and shapes of a model's tensors", errors=(404, 503)
    ),
    ("GET", "/v2/models/{model}/ready"): Operation(
        INFERENCE, "Whether a model is loaded", errors=(404, 503)
    ),
    ("GET", "/v2"): Operation(INFERENCE, "The server's name, version and extensions"),
    ("GET", "/v2/health/live"): Operation(INFERENCE, "Whether the server runs"),
    ("GET", "/v2/health/ready"): Operation(
        INFERENCE, "Whether the models are loaded", errors=(503,)
    ),
    ("POST", "/v1/models/{model}:predict"): Operation(
        INFERENCE,
        "KServe's first protocol: for each text of a list, the answer that / gives",
        (
            RouteExample(
                "a text", CLASSES, InstancesBody, {"instances": [TEXT]}, PredictionsAnswer,
                {"predictions": [SCORED]},
            ),
        ),
        TEXT_ERRORS,
    ),
    ("GET", "/v1/models/{model}"): Operation(
        INFERENCE, "Whether a model is loaded, and its name", errors=(404, 503)
    ),
    ("POST", "/tokenize"): Operation(
        SERVER,
        "The tokens of a text",
        (
            RouteExample(
                "a text",
                "any",
                TokenizeBody,
                {"inputs": "A story", "add_special_tokens": False},
                list[list[TextToken]],
                [[
                    {"id": 42, "text": "A", "special": False, "start": 0, "stop": 1},
                    {"id": 915, "text": "story", "special": False, "start": 2, "stop": 7},
                ]],
            ),
        ),
        TOKEN_ERRORS,
    ),
    ("POST", "/decode"): Operation(
        SERVER,
        "The text of token ids",
        (
            RouteExample("ids", "any", DecodeBody, {"ids": [5, 6]}, list[str], ["a story"]),
        ),
        TOKEN_ERRORS,
    ),
    ("GET", "/info"): Operation(
        SERVER, "A model and the limits of the server", errors=(404, 503)
    ),
    ("GET", "/v1/models"): Operation(SERVER, "The names of all models"),
    ("GET", "/health"): Operation(
        SERVER, "200 as soon as the models are loaded, 503 otherwise", errors=(503,), content=""
    ),
    ("GET", "/metrics"): Operation(
        SERVER, "Figures for Prometheus", content="text/plain; version=0.0.4"
    ),
    ("GET", "/"): Operation(SERVER, "A page to try a model", content="text/html"),
    ("GET", "/docs"): Operation(SERVER, "This page", content="text/html"),
    ("GET", "/openapi.json"): Operation(SERVER, "These routes for programs (OpenAPI 3.1)"),
}  # fmt: skip
"""Routes by method and path; the same path below /models/NAME asks the model of this name."""

SAME_AS = {
    "/embeddings": "/v1/embeddings",
    "/invocations": "/",
    "/predictions": "/",
    "/ping": "/health",
    "/models": "/v1/models",
    **{
        f"/v2/models/{{model}}/versions/{{version}}{path}": f"/v2/models/{{model}}{path}"
        for path in ("", "/infer", "/ready")
    },
}
"""Other paths of some routes, each with the path under which its route is described."""


def canonical_path(path: str) -> str:
    """Return the path under which a route is described.

    >>> canonical_path("/models/{model}/embed"), canonical_path("/ping")
    ('/embed', '/health')
    """
    path_without_model = re.sub(r"^/models/\{model\}", "", path) or "/"
    return SAME_AS.get(path_without_model, path_without_model)

"""The routes that a model can answer, by its head, and the error of all other routes."""

from bertsmith.serving.messages import ModelInfo, ResultKind
from bertsmith.serving.problems import Problem

REQUIRED_MODELS: dict[ResultKind, str] = {
    "vectors": "a model for vectors",
    "token_vectors": "a model for vectors",
    "predict": "a model with a head that predicts",
}
"""For each kind of result, the kind of model that gives it, for messages."""
ROUTE_SENTENCES = {
    "feature-extraction": "Its routes are {embed}, {embed_all} and {similarity}.",
    "fill-mask": "Send texts with the mask token to {task}, or use {embed} for vectors.",
    "text-classification": "Its route is {predict}.",
    "token-classification": "Send texts to {task}.",
    "question-answering": "Send a question and a context to {task}.",
    "multiple-choice": "Send a text and its choices to {task}.",
}
"""For each task, a sentence that names its routes, for messages. The names in braces are routes:
{task} is `/`, which answers by the model's head."""


def is_reranker(model: ModelInfo) -> bool:
    """Return whether a model gives a number for a pair of texts, as far as is known."""
    return model.is_regression and model.reads_pairs is not False  # None if that is not known


def wrong_head(model: ModelInfo, route: str, needed: str, *, has_short_paths: bool) -> Problem:
    """Build the problem of a route that the model's head cannot answer; it names routes that can.

    Args:
        needed: what the route needs, such as "a model for vectors".
        has_short_paths: whether the model answers at the short paths, without its name.
    """
    prefix = "" if has_short_paths else f"/models/{model.name}"
    names = ("embed", "embed_all", "similarity", "predict", "rerank")
    paths = {name: f"{prefix}/{name}" for name in names} | {"task": prefix or "/"}
    sentence = ROUTE_SENTENCES[model.task]
    if is_reranker(model):
        sentence = "Its routes are {rerank}, for a query and texts, and {predict}."
    return Problem(
        424,
        "Backend",
        f"{route} needs {needed}, and '{model.name}' is a model for {model.task}. "
        + sentence.format(**paths),
    )

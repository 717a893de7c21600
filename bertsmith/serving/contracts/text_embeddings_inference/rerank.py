"""/rerank: texts in the order of the scores that a model gives them with a query."""

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from starlette.responses import Response

from bertsmith.serving.call import Call, answer_json
from bertsmith.serving.contracts.text_embeddings_inference.truncation import (
    TruncationDirection,
    check_cut_at_end,
)
from bertsmith.serving.contracts.texts import check_texts
from bertsmith.serving.heads import is_reranker
from bertsmith.serving.messages import Answers


class RerankBody(Struct, forbid_unknown_fields=True):
    """Body of /rerank."""

    query: str
    texts: list[str]
    truncate: bool | None = None
    truncation_direction: TruncationDirection = "right"
    raw_scores: bool = False
    return_text: bool = False


async def rerank(call: Call) -> Response:
    """Answer with the indices of the texts and their scores, the best first."""
    model = call.model
    if not is_reranker(model):
        needed = "a model that gives one score for a pair of texts"
        raise call.wrong_head(model, "/rerank", needed)
    body = await call.body(RerankBody)
    check_cut_at_end(body.truncation_direction)
    texts = check_texts(body.texts, "texts")
    (query,) = check_texts(body.query, "query")
    answers = await call.compute(
        model,
        "predict",
        [{"text": query, "pair": text} for text in texts],
        may_cut=body.truncate is not False,
        field="texts",
    )
    scores = rerank_scores(answers, raw=body.raw_scores)
    ranked = []
    for index in np.argsort(-scores, kind="stable").tolist():
        row: dict[str, Any] = {"index": index}
        if body.return_text:
            row["text"] = texts[index]
        row["score"] = float(scores[index])
        ranked.append(row)
    return answer_json(ranked)


def rerank_scores(answers: Answers, *, raw: bool) -> NDArray[np.float64]:
    """Return the score of each pair, fp64 `[pairs]`.

    With `raw` it is the score before the model's sigmoid, if the model has one.
    """
    if raw:
        return np.array([float(logits[0]) for logits in answers.raw])
    return np.array([prediction.value for prediction in answers.predictions], dtype=np.float64)

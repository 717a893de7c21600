"""Text classification, in the form of transformers' pipeline."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bertsmith.serving.call import Call
from bertsmith.serving.contracts.hugging_face.body import HubOptions, TopK, as_rows
from bertsmith.serving.contracts.label_scores import label_scores
from bertsmith.serving.contracts.pairs import check_pairs
from bertsmith.serving.contracts.texts import check_texts
from bertsmith.serving.json_body import convert
from bertsmith.serving.messages import ModelInfo
from bertsmith.serving.text_field import TextField
from bertsmith.tasks.probabilities import sigmoid, softmax64


class TextPair(Struct, forbid_unknown_fields=True):
    """A text and its pair."""

    text: str
    text_pair: str | None = None


class ClassParameters(Struct, forbid_unknown_fields=True, frozen=True):
    """Parameters of text classification."""

    top_k: TopK = None
    function_to_apply: Literal["softmax", "sigmoid", "none"] | None = None


class ClassBody(Struct, forbid_unknown_fields=True):
    """Body of text classification."""

    inputs: str | TextPair | list[str | TextPair]
    parameters: ClassParameters = ClassParameters()
    options: HubOptions | None = None


def text_records(rows: list[str | TextPair], field: TextField) -> list[dict[str, str]]:
    """Return a record for each text or pair.

    Raises:
        Problem: 400 if a text is empty.
    """
    records = []
    for index, row in enumerate(rows):
        where = field.of_text(index)
        if isinstance(row, str):
            check_texts(row, where)
            records.append({"text": row})
            continue
        check_texts(row.text, f"{where}.text")
        record = {"text": row.text}
        if row.text_pair is not None:
            check_texts(row.text_pair, f"{where}.text_pair")
            record["pair"] = row.text_pair
        records.append(record)
    return records


async def classify(call: Call, model: ModelInfo, content: Mapping[str, Any]) -> Any:
    """Return the labels of each text, the best first; a list of lists even for one text."""
    body = convert(content, ClassBody)
    rows, field = as_rows(body.inputs)
    records = text_records(rows, field)
    check_pairs(model, records, field, single="TEXT", pair='{"text": TEXT, "text_pair": TEXT}')
    answers = await call.compute(model, "predict", records, field=field)
    function_name = body.parameters.function_to_apply
    # Raw scores are logits: the request names the function to apply to them, or "none".
    scored = label_scores(model, answers, raw=function_name is not None)
    if function_name in ("softmax", "sigmoid"):
        function = softmax64 if function_name == "softmax" else sigmoid
        scored = [_apply_to_scores(function, row) for row in scored]
    return [
        [{"label": label, "score": score} for label, score in row[: body.parameters.top_k]]
        for row in scored
    ]


def _apply_to_scores(
    function: Callable[[NDArray[Any]], NDArray[np.float64]], row: list[tuple[str, float]]
) -> list[tuple[str, float]]:
    """Return the labels of one text, each with the value of `function` for its score."""
    labels = [label for label, _ in row]
    scores = np.array([score for _, score in row])
    return list(zip(labels, function(scores).tolist(), strict=True))

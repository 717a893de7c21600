"""Text classification."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from bertsmith.serving.call import Call
from bertsmith.serving.contracts.hugging_face.body import HubOptions, TopK, convert
from bertsmith.serving.contracts.label_scores import label_scores
from bertsmith.serving.contracts.texts import check_texts
from bertsmith.serving.messages import ModelInfo
from bertsmith.serving.problems import empty
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


def text_records(inputs: str | TextPair | list[str | TextPair]) -> list[dict[str, str]]:
    """Return a record for each text or pair.

    Raises:
        Problem: 400 without a text.
    """
    rows = inputs if isinstance(inputs, list) else [inputs]
    if not rows:
        raise empty("inputs: found no text. Send at least one.")
    records = []
    for index, row in enumerate(rows):
        where = f"inputs[{index}]" if isinstance(inputs, list) else "inputs"
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


async def classes(call: Call, model: ModelInfo, content: Mapping[str, Any]) -> Any:
    """Return the labels of each text, best first, and a list of lists also for one text."""
    body: ClassBody = convert(content, ClassBody)
    records = text_records(body.inputs)
    answers = await call.compute(model, "predict", records)
    apply = body.parameters.function_to_apply
    rows = label_scores(model, answers, raw=apply is not None)
    if apply in ("softmax", "sigmoid"):
        function = softmax64 if apply == "softmax" else sigmoid
        rows = [
            list(
                zip(
                    (label for label, _ in row),
                    function(np.array([score for _, score in row])).tolist(),
                    strict=True,
                )
            )
            for row in rows
        ]
    return [
        [{"label": label, "score": score} for label, score in row[: body.parameters.top_k]]
        for row in rows
    ]

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

    inputs: str | list[str] | TextPair
    parameters: ClassParameters = ClassParameters()
    options: HubOptions | None = None


async def classes(call: Call, model: ModelInfo, content: Mapping[str, Any]) -> Any:
    """Return the labels of each text, best first, and a list of lists also for one text."""
    body: ClassBody = convert(content, ClassBody)
    if isinstance(body.inputs, TextPair):
        texts = [body.inputs.text, *([body.inputs.text_pair] if body.inputs.text_pair else [])]
        check_texts(texts)  # type: ignore[arg-type]
        records = [dict(zip(("text", "pair"), texts, strict=False))]
    else:
        records = [{"text": text} for text in check_texts(body.inputs)]  # type: ignore[arg-type]
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

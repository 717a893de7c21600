"""Multiple choice, which the client has no method for."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from bertsmith.serving.call import Call
from bertsmith.serving.contracts.hugging_face.body import HubOptions, convert
from bertsmith.serving.contracts.texts import check_texts
from bertsmith.serving.messages import ModelInfo


class Choices(Struct, forbid_unknown_fields=True):
    """A text, and the choices that may follow it."""

    text: str
    choices: list[str]


class ChoiceBody(Struct, forbid_unknown_fields=True):
    """Body of multiple choice, which the client has no method for."""

    inputs: Choices
    options: HubOptions | None = None


async def choices(call: Call, model: ModelInfo, content: Mapping[str, Any]) -> Any:
    body: ChoiceBody = convert(content, ChoiceBody)
    check_texts(body.inputs.text, "inputs.text")
    check_texts(body.inputs.choices, "inputs.choices")  # type: ignore[arg-type]
    record = {"text": body.inputs.text, "choices": body.inputs.choices}
    answers = await call.compute(model, "predict", [record])
    scores = np.array(answers.predictions[0].probabilities)
    return [
        {"index": index, "choice": body.inputs.choices[index], "score": float(scores[index])}
        for index in np.argsort(-scores, kind="stable").tolist()
    ]

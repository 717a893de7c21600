"""Multiple choice, which the client has no method for."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bertsmith.serving.call import Call
from bertsmith.serving.contracts.hugging_face.body import HubOptions, convert
from bertsmith.serving.contracts.texts import check_texts
from bertsmith.serving.messages import ModelInfo
from bertsmith.serving.problems import empty


class Choices(Struct, forbid_unknown_fields=True):
    """A text, and the choices that may follow it."""

    text: str
    choices: list[str]


class ChoiceBody(Struct, forbid_unknown_fields=True):
    """Body of multiple choice, which the client has no method for."""

    inputs: Choices | list[Choices]
    options: HubOptions | None = None


async def choices(call: Call, model: ModelInfo, content: Mapping[str, Any]) -> Any:
    body: ChoiceBody = convert(content, ChoiceBody)
    inputs = body.inputs
    rows = [inputs] if isinstance(inputs, Choices) else inputs
    records = []
    for index, one in enumerate(rows):
        where = f"inputs[{index}]" if isinstance(inputs, list) else "inputs"
        check_texts(one.text, f"{where}.text")
        check_texts(one.choices, f"{where}.choices")
        records.append({"text": one.text, "choices": one.choices})
    if not records:
        raise empty("inputs: found no text. Send at least one.")
    answers = await call.compute(model, "predict", records)
    ranked = [
        choice_rows(record["choices"], np.array(prediction.probabilities))
        for record, prediction in zip(records, answers.predictions, strict=True)
    ]
    return ranked if isinstance(inputs, list) else ranked[0]


def choice_rows(texts: Sequence[str], scores: NDArray[np.float64]) -> list[dict[str, Any]]:
    """List the choices, the likeliest first."""
    return [
        {"index": index, "choice": texts[index], "score": float(scores[index])}
        for index in np.argsort(-scores, kind="stable").tolist()
    ]

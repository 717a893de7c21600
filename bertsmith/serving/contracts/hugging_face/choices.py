"""Multiple choice, for which huggingface_hub's InferenceClient has no method."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bertsmith.serving.call import Call
from bertsmith.serving.contracts.hugging_face.body import HubOptions, as_rows
from bertsmith.serving.contracts.texts import check_texts
from bertsmith.serving.json_body import convert
from bertsmith.serving.messages import ModelInfo


class Choices(Struct, forbid_unknown_fields=True):
    """A text, and the choices that may follow it."""

    text: str
    choices: list[str]


class ChoiceBody(Struct, forbid_unknown_fields=True):
    """Body of multiple choice."""

    inputs: Choices | list[Choices]
    options: HubOptions | None = None


async def choose(call: Call, model: ModelInfo, content: Mapping[str, Any]) -> Any:
    """Return the choices of each text with their probabilities, the likeliest first."""
    body = convert(content, ChoiceBody)
    rows, field = as_rows(body.inputs)
    for index, row in enumerate(rows):
        check_texts(row.text, f"{field.of_text(index)}.text")
        check_texts(row.choices, f"{field.of_text(index)}.choices")
    records = [{"text": row.text, "choices": row.choices} for row in rows]
    answers = await call.compute(model, "predict", records, field=field)
    ranked = [
        choice_rows(row.choices, np.array(prediction.probabilities))
        for row, prediction in zip(rows, answers.predictions, strict=True)
    ]
    return ranked if isinstance(body.inputs, list) else ranked[0]


def choice_rows(choices: Sequence[str], scores: NDArray[np.float64]) -> list[dict[str, Any]]:
    """List the choices, the likeliest first."""
    return [
        {"index": index, "choice": choices[index], "score": float(scores[index])}
        for index in np.argsort(-scores, kind="stable").tolist()
    ]

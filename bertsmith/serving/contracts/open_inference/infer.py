"""/v2/models/NAME/infer: tensors of texts to tensors of answers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson
from msgspec import Struct
from starlette.responses import Response

from bertsmith.serving.call import Call
from bertsmith.serving.client_text import clip_text
from bertsmith.serving.contracts.hugging_face.dispatch import answer_task
from bertsmith.serving.contracts.open_inference.metadata import VERSION, model_of_version
from bertsmith.serving.contracts.open_inference.tensor_names import (
    check_inputs,
    describe_output_tensors,
)
from bertsmith.serving.contracts.open_inference.tensors import (
    HEADER,
    InputTensor,
    OutputTensor,
    read_strings,
    split_body,
    write_body,
)
from bertsmith.serving.contracts.vectors import VectorOptions, embed_texts
from bertsmith.serving.json_body import convert, parse
from bertsmith.serving.messages import ModelInfo
from bertsmith.serving.problems import invalid, renaming_inputs

CLIENT_PARAMETERS = frozenset(
    {
        "binary_data_output",
        "content_type",
        "headers",
        "priority",
        "timeout",
        "sequence_id",
        "sequence_start",
        "sequence_end",
    }
)
"""Parameters that client libraries add, and that are not for the model."""


class OutputParameters(Struct, forbid_unknown_fields=True):
    """Parameters of a requested output tensor."""

    binary_data: bool | None = None


class RequestedOutput(Struct, forbid_unknown_fields=True):
    """A requested output tensor."""

    name: str
    parameters: OutputParameters | None = None


class InferBody(Struct, forbid_unknown_fields=True):
    """Body of /v2/models/NAME/infer."""

    inputs: list[InputTensor]
    id: str | None = None
    parameters: dict[str, Any] | None = None
    outputs: list[RequestedOutput] | None = None
    model_name: str | None = None
    """The model's name, which the client of KServe also sends in the body."""


class TextParameters(Struct, forbid_unknown_fields=True):
    """Parameters of a model for classes or numbers."""

    truncate: bool = True


async def infer(call: Call) -> Response:
    """Answer the texts of a request's tensors by the model's head, as tensors."""
    model = model_of_version(call)
    json, binary = split_body(await call.read(), call.request.headers.get(HEADER))
    body = parse(json, InferBody)
    if body.model_name is not None and body.model_name != model.name:
        raise invalid(
            f"model_name: found '{clip_text(body.model_name)}', but the address names "
            f"'{model.name}'. Give one name in both."
        )
    texts = check_inputs(model, read_strings(body.inputs, binary))
    requested = check_outputs(model, body.outputs)
    all_parameters = body.parameters or {}
    parameters = {
        name: value for name, value in all_parameters.items() if name not in CLIENT_PARAMETERS
    }
    if "predict" not in model.kinds:
        outputs = await _infer_vectors(
            call, model, texts, convert(parameters, VectorOptions, within="parameters")
        )
    elif model.task == "text-classification":
        outputs = await _infer_classes(
            call, model, texts, convert(parameters, TextParameters, within="parameters")
        )
    else:
        outputs = await _infer_others(call, model, texts, parameters)
    head = {"model_name": model.name, "model_version": VERSION}
    if body.id is not None:
        head["id"] = body.id
    outputs_by_name = {output.name: output for output in outputs}
    is_binary_by_default = bool(all_parameters.get("binary_data_output"))
    binary_names = frozenset(
        name
        for name, is_binary in requested.items()
        if is_binary or (is_binary is None and is_binary_by_default)
    )
    content, headers = write_body(head, [outputs_by_name[name] for name in requested], binary_names)
    return Response(content, headers=headers)


def check_outputs(
    model: ModelInfo, outputs: Sequence[RequestedOutput] | None
) -> dict[str, bool | None]:
    """Return for each requested tensor whether it must be binary.

    The value is None if the request as a whole decides (`binary_data_output`). Without `outputs`,
    all tensors of the model are requested.

    Raises:
        Problem: 422 if the model has no such tensor.
    """
    names = [tensor["name"] for tensor in describe_output_tensors(model)]
    if not outputs:
        return dict.fromkeys(names)
    for output in outputs:
        if output.name not in names:
            raise invalid(
                f"outputs: found '{clip_text(output.name)}'; '{model.name}' gives "
                f"{' and '.join(names)}."
            )
    return {
        output.name: None if output.parameters is None else output.parameters.binary_data
        for output in outputs
    }


async def _infer_vectors(
    call: Call, model: ModelInfo, texts: Mapping[str, list[Any]], options: VectorOptions
) -> list[OutputTensor]:
    vectors = await embed_texts(call, model, texts["text"], options, field="text")
    return [OutputTensor("vectors", "FP32", vectors.shape, vectors)]


async def _infer_classes(
    call: Call, model: ModelInfo, texts: Mapping[str, list[Any]], parameters: TextParameters
) -> list[OutputTensor]:
    """Return labels and probabilities, or of a regression model the score, of each text."""
    records = _rows_of(texts)
    answers = await call.compute(
        model, "predict", records, may_cut=parameters.truncate, field="text"
    )
    predictions, count = answers.predictions, len(records)
    if model.is_regression:
        scores = np.array([prediction.value for prediction in predictions], dtype=np.float64)
        return [OutputTensor("score", "FP64", (count,), scores)]
    probabilities = np.array(
        [list(prediction.probabilities.values()) for prediction in predictions]
    )
    if model.is_multi_label:
        names = [orjson.dumps(prediction.names).decode() for prediction in predictions]
        label = OutputTensor("labels", "BYTES", (count,), names)
    else:
        names = [prediction.name for prediction in predictions]
        label = OutputTensor("label", "BYTES", (count,), names)
    return [label, OutputTensor("probabilities", "FP64", probabilities.shape, probabilities)]


async def _infer_others(
    call: Call, model: ModelInfo, texts: Mapping[str, list[Any]], parameters: Mapping[str, Any]
) -> list[OutputTensor]:
    """Return for each text the answer of the route `/`, as JSON text."""
    content: dict[str, Any] = {"inputs": texts["text"] if len(texts) == 1 else _rows_of(texts)}
    if parameters:
        content["parameters"] = dict(parameters)
    # In this protocol the first tensor has the name that the route `/` calls "inputs".
    with renaming_inputs(next(iter(texts))):
        rows = await answer_task(call, model, content)
    answers = [orjson.dumps(row).decode() for row in rows]
    return [OutputTensor("result", "BYTES", (len(rows),), answers)]


def _rows_of(texts: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    """Turn lists of entries, one list for each tensor, into records with an entry of each list."""
    return [dict(zip(texts, row, strict=True)) for row in zip(*texts.values(), strict=True)]

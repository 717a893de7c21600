"""Routes of Open Inference (v2) that describe server and models, or say whether they are ready."""

from starlette.responses import Response

from bertsmith._version import __version__
from bertsmith.serving.call import Call, answer_json
from bertsmith.serving.client_text import clip_text
from bertsmith.serving.contracts.open_inference.tensor_names import (
    describe_input_tensors,
    describe_output_tensors,
)
from bertsmith.serving.messages import ModelInfo
from bertsmith.serving.problems import Problem

VERSION = "1"
"""The version of every model; there is no other."""


def model_of_version(call: Call) -> ModelInfo:
    """Return the model that the path names.

    Raises:
        Problem: 404 if there is none of this name or version.
    """
    version = call.request.path_params.get("version", VERSION)
    if version != VERSION:
        raise Problem(
            404,
            "Validation",
            f"there is no version '{clip_text(version)}' of '{call.model.name}'; its version is "
            f"{VERSION}.",
        )
    return call.model


async def answer_server(call: Call) -> Response:
    return answer_json(
        {"name": "bertsmith", "version": __version__, "extensions": ["binary_tensor_data"]}
    )


async def answer_metadata(call: Call) -> Response:
    model = model_of_version(call)
    return answer_json(
        {
            "name": model.name,
            "versions": [VERSION],
            "platform": "bertsmith",
            "inputs": describe_input_tensors(model),
            "outputs": describe_output_tensors(model),
        }
    )


async def answer_ready(call: Call) -> Response:
    model = model_of_version(call)
    response = answer_json({"name": model.name, "ready": call.service.is_ready})
    response.status_code = 200 if call.service.is_ready else 503
    return response

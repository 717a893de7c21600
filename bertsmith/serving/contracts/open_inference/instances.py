"""KServe's first protocol, /v1/models/NAME:predict: a list of inputs to a list of answers."""

from typing import Any

from msgspec import Struct
from starlette.responses import Response

from bertsmith.serving.call import Call, answer_json
from bertsmith.serving.contracts.hugging_face.dispatch import answer_task
from bertsmith.serving.contracts.texts import check_texts
from bertsmith.serving.json_body import parse
from bertsmith.serving.problems import empty, renaming_inputs


class InstancesBody(Struct, forbid_unknown_fields=True):
    """Body of /v1/models/NAME:predict."""

    instances: list[Any]
    parameters: dict[str, Any] | None = None


async def answer_description(call: Call) -> Response:
    """Describe a model, with the fields of KServe's first protocol and OpenAI's fields."""
    model = call.model
    return answer_json(
        {
            "name": model.name,
            "ready": call.service.is_ready,
            "id": model.name,
            "object": "model",
            "created": 0,
            "owned_by": "local",
        }
    )


async def predict_instances(call: Call) -> Response:
    """Answer each instance as the route `/` answers it."""
    body = parse(await call.read(), InstancesBody)
    model = call.model
    if not body.instances:
        raise empty("instances: found none. Send at least one.")
    # Other inputs, such as questions with contexts, are checked by the handler of the model's task.
    if all(isinstance(instance, str) for instance in body.instances):
        check_texts(body.instances, "instances")
    content: dict[str, Any] = {"inputs": body.instances}
    if body.parameters:
        content["parameters"] = body.parameters
    with renaming_inputs("instances"):
        predictions = await answer_task(call, model, content)
    return answer_json({"predictions": predictions})

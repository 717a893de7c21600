"""Bodies of the Hugging Face routes: objects whose fields are checked once the task is known."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from bertsmith.serving.json_body import read_json
from bertsmith.serving.problems import empty, invalid
from bertsmith.serving.text_field import TextField

TopK = Annotated[int, Meta(ge=1)] | None
"""Number of answers that the client wants, 1 or more; None for the default of the task."""


class HubOptions(Struct):
    """Options of the hub's own servers, such as wait_for_model, which are ignored here."""


def read_object(body: bytes) -> dict[str, Any]:
    """Read a body that is an object.

    Raises:
        Problem: 400 if it is not JSON, or 422 if it is not an object.
    """
    content = read_json(body)
    if not isinstance(content, dict):
        raise invalid('the body is not an object. Send {"inputs": "a text"}.')
    return content


def as_rows(inputs: Any) -> tuple[list[Any], TextField]:
    """Return one or several inputs as a list, and the field that they come from.

    Raises:
        Problem: 400 if there is none.
    """
    rows = inputs if isinstance(inputs, list) else [inputs]
    if not rows:
        raise empty("inputs: found none. Send at least one.")
    return rows, TextField.of("inputs", inputs)

"""Bodies: an object whose fields are checked once the task is known."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from bertsmith.serving.call import no_json
from bertsmith.serving.mismatch import describe_mismatch
from bertsmith.serving.problems import invalid

TopK = Annotated[int, Meta(ge=1)] | None


class HubOptions(Struct):
    """Options of the hub's own servers, such as wait_for_model, which are ignored here."""


def read_object(body: bytes) -> dict[str, Any]:
    """Read a body that is an object; fields that are null count as absent.

    Raises:
        Problem: 400 if it is no JSON, or 422 if it is no object.
    """
    try:
        content = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise no_json(body) from None
    if not isinstance(content, dict):
        raise invalid('the body is no object. Send {"inputs": "a text"}.')
    return {name: value for name, value in content.items() if value is not None}


def convert(content: Mapping[str, Any], kind: type[Any], within: str = "") -> Any:
    """Check the fields of a body, or of an object within it.

    Raises:
        Problem: 422 if one is missing, unknown or of another type.
    """
    try:
        return msgspec.convert(content, type=kind)
    except msgspec.ValidationError as error:
        raise invalid(describe_mismatch(error, kind, within)) from None

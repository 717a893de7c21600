"""Bodies of requests: from JSON to the fields of a route."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
import orjson

from bertsmith.serving.mismatch import describe_mismatch
from bertsmith.serving.problems import Problem, invalid

Fields = TypeVar("Fields", bound=msgspec.Struct)


def read_json(body: bytes) -> Any:
    """Read the JSON of a body.

    A field whose value is null is left out, as if it had not been sent, also within `parameters`.

    Raises:
        Problem: 400 if it is not JSON, or has a number that is too large to be read.
    """
    try:
        content = msgspec.json.decode(body)
    except msgspec.ValidationError:
        raise invalid(
            "the body has a number with too many digits. Send a smaller one.", status=400
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _no_json(body) from None
    if not isinstance(content, dict):
        return content
    if isinstance(content.get("parameters"), dict):
        content["parameters"] = _without_nulls(content["parameters"])
    return _without_nulls(content)


def parse(body: bytes, fields_type: type[Fields]) -> Fields:
    """Read a body as an object with the fields of `fields_type`.

    Raises:
        Problem: 400 if it is not JSON, or 422 if a field is missing, unknown or of another type.
    """
    return convert(read_json(body), fields_type)


def convert(content: Any, fields_type: type[Fields], within: str = "") -> Fields:
    """Check the fields of a body, or of an object within it, and convert it to `fields_type`.

    Args:
        content: the object, as plain values.
        within: the field of the body that holds the object; empty for the body itself.

    Raises:
        Problem: 422 if a field is missing, unknown or of another type.
    """
    try:
        return msgspec.convert(content, type=fields_type)
    except msgspec.ValidationError as error:
        raise invalid(describe_mismatch(error, fields_type, within)) from None


def _without_nulls(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _no_json(body: bytes) -> Problem:
    """Build the problem of a body that is not JSON; orjson describes the reason best."""
    if not body.strip():
        return invalid('the body is empty. Send JSON, such as {"inputs": "a text"}.', status=400)
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return invalid(f"the body cannot be read as JSON: {error}.", status=400)
    return invalid("the body cannot be read as JSON: it is nested too deeply.", status=400)

"""Error messages about a request's JSON in which a field is missing or wrong.

msgspec finds the error; its own message says neither which fields nor which values are allowed.
"""

import re
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from bertsmith.serving.client_text import clip_text

WORDS = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
}
"""Names of the types of JSON, by msgspec's names."""
PATH_MARK = " - at `$"
"""What msgspec writes before the path of a value."""


def describe_mismatch(
    error: msgspec.ValidationError, body_type: type[Any], within: str = ""
) -> str:
    """Describe which field is wrong, and what it may be.

    Args:
        body_type: the type to which msgspec should have converted the JSON.
        within: the field of the body that was converted; empty for the whole body.
    """
    problem, path = _split_path(str(error))
    full_path = ".".join(filter(None, [within, clip_text(path)]))
    where = full_path or "the body"
    fields = f"The fields of {where} are {', '.join(_fields_at(body_type, path))}."
    if match := re.fullmatch(r"Object missing required field `(.*)`", problem):
        return f"{_join(full_path, match[1])}: this field is missing. {fields}"
    if match := re.fullmatch(r"Object contains unknown field `(.*)`", problem, re.DOTALL):
        return f"{_join(full_path, clip_text(match[1]))}: there is no such field. {fields}"
    if match := re.fullmatch(r"Expected `(.*)`, got `(.*)`", problem):
        allowed = [WORDS[name] for name in match[1].split(" | ") if name in WORDS]
        found = WORDS.get(match[2], match[2])
        return f"{where}: found {found}. Send {_join_or(allowed)}."
    if match := re.fullmatch(r"Invalid enum value (.*)", problem, re.DOTALL):
        choices = _join_or(_choices_at(body_type, path))
        return f"{where}: found {clip_text(match[1])}. Send {choices}."
    if match := re.fullmatch(r"Expected `int` >= (\d+)", problem):
        return f"{where}: found a number below {match[1]}. Send {match[1]} or more."
    return f"{where}: {clip_text(problem)}."


def _split_path(message: str) -> tuple[str, str]:
    """Divide msgspec's message into what is wrong and the path of the value, such as `inputs[0]`.

    The message may contain a name that the client chose, so it may have any length and form.
    """
    problem, mark, path = message.rpartition(PATH_MARK)
    if not mark or not re.fullmatch(r"[\w.\[\]]*`", path):
        return message, ""
    return problem, path.removeprefix(".").removesuffix("`")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _join_or(words: list[str]) -> str:
    """Write a list with "or" before its last word."""
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _fields_at(body_type: type[Any], path: str) -> list[str]:
    """Return the names of the fields of the object at a path, the required ones first."""
    return [
        field.encode_name
        for type_ in _types_at(body_type, path)
        if _is_struct(type_)
        for field in sorted(msgspec.structs.fields(type_), key=lambda field: not field.required)
    ]


def _choices_at(body_type: type[Any], path: str) -> list[str]:
    """Return the allowed values of the field at a path, as Python writes them."""
    return [
        repr(value)
        for type_ in _types_at(body_type, path)
        if get_origin(type_) is Literal
        for value in get_args(type_)
    ]


def _types_at(body_type: Any, path: str) -> list[Any]:
    """Return the types that a value may have, at a path such as `inputs[0].text`."""
    types = list(_alternatives(body_type))
    for name, index in re.findall(r"(\w+)|(\[[^\[\]]*\])", path):
        inner_types = []
        for type_ in types:
            if index and get_origin(type_) in (list, tuple):
                inner_types.append(get_args(type_)[0])
            elif not index and _is_struct(type_):
                fields = msgspec.structs.fields(type_)
                inner_types += [field.type for field in fields if field.encode_name == name]
        types = [inner for type_ in inner_types for inner in _alternatives(type_)]
    return types


def _alternatives(type_: Any) -> Iterator[Any]:
    """Yield the members of a union, and the type within an annotated one."""
    if get_origin(type_) is Annotated:
        yield from _alternatives(get_args(type_)[0])
    elif get_origin(type_) in (Union, UnionType):
        for member in get_args(type_):
            yield from _alternatives(member)
    else:
        yield type_


def _is_struct(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, Struct)

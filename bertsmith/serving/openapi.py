"""/openapi.json, the description of all routes for programs (OpenAPI 3.1), and /docs for people."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bertsmith._version import __version__
from bertsmith.pages.page import render_page
from bertsmith.serving.answer_types import ProblemAnswer
from bertsmith.serving.call import answer_json
from bertsmith.serving.open_paths import needs_key
from bertsmith.serving.operations import (
    EMBED,
    ERRORS,
    HEADS,
    INFERENCE,
    OPERATIONS,
    SERVER,
    Operation,
    RouteExample,
    canonical_path,
)
from bertsmith.serving.page import page_response

SCHEMAS = "#/components/schemas/{name}"
PAGE_GROUPS = (EMBED, HEADS, INFERENCE, SERVER)


def description_routes(routes: Sequence[Route], *, has_key: bool) -> list[Route]:
    """Return the routes that describe `routes` and themselves.

    Args:
        has_key: whether requests need a key.
    """

    async def openapi(request: Request) -> Response:
        return answer_json(describe_routes(all_routes, has_key=has_key))

    async def docs(request: Request) -> Response:
        address = str(request.base_url).rstrip("/")
        return page_response(render_docs(all_routes, address, has_key=has_key))

    own_routes = [Route("/openapi.json", openapi), Route("/docs", docs)]
    all_routes = [*routes, *own_routes]
    return own_routes


def iter_operations(routes: Sequence[Route]) -> Iterator[tuple[str, str, Operation]]:
    """Yield method, path and operation of each route that `OPERATIONS` describes."""
    for route in routes:
        for method in sorted((route.methods or set()) - {"HEAD"}):  # Starlette adds HEAD to GET
            operation = OPERATIONS.get((method, canonical_path(route.path)))
            if operation is not None:
                yield method, route.path, operation


def describe_routes(routes: Sequence[Route], *, has_key: bool) -> dict[str, Any]:
    """Describe routes as an object of OpenAPI 3.1."""
    types: list[Any] = [ProblemAnswer]
    for operation in OPERATIONS.values():
        for example in operation.examples:
            types += [example.body, example.answer_type]
    types = list(dict.fromkeys(types))  # each once
    schemas, components = msgspec.json.schema_components(types, ref_template=SCHEMAS)
    schema_of = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for method, path, operation in iter_operations(routes):
        paths[path][method.lower()] = _describe(
            method, path, operation, schema_of, has_key=has_key and needs_key(method, path)
        )
    description: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "bertsmith serve",
            "version": __version__,
            "description": "A path below /models/NAME asks the model of this name; without it, "
            "the first model answers.",
        },
        "paths": paths,
        "components": {"schemas": components},
    }
    if has_key:
        description["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return description


def _describe(
    method: str,
    path: str,
    operation: Operation,
    schema_of: Mapping[Any, Mapping[str, Any]],
    *,
    has_key: bool,
) -> dict[str, Any]:
    """Describe a route and method as an operation of OpenAPI.

    Args:
        schema_of: the JSON schema of each type of a body or answer.
        has_key: whether this route needs a key.
    """
    words = re.findall(r"\w+", path)
    examples = operation.examples
    answer: dict[str, Any] = {"description": "The answer"}
    if operation.content:
        answer["content"] = {operation.content: {}}
    if examples:
        answer["content"]["application/json"] = {
            "schema": _one_of([schema_of[example.answer_type] for example in examples]),
            "examples": {example.name: {"value": example.answer} for example in examples},
        }
    result: dict[str, Any] = {
        "operationId": "_".join([method.lower(), *words]),
        "summary": operation.summary,
        "tags": [operation.group],
        "responses": {"200": answer} | _errors(operation, schema_of, has_key=has_key),
    }
    if examples:
        content = {
            "schema": _one_of([schema_of[example.body] for example in examples]),
            "examples": {example.name: {"value": example.request} for example in examples},
        }
        result["requestBody"] = {"required": True, "content": {"application/json": content}}
    if has_key:
        result["security"] = [{"key": []}]
    if parameters := re.findall(r"\{(\w+)\}", path):
        result["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in parameters
        ]
    return result


def _errors(
    operation: Operation, schema_of: Mapping[Any, Mapping[str, Any]], *, has_key: bool
) -> dict[str, Any]:
    """Describe the errors of an operation, by their statuses."""
    statuses = {*operation.errors} | ({401} if has_key else set())
    retry = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait"}}
    return {
        str(status): {
            "description": ERRORS[status],
            "content": {"application/json": {"schema": schema_of[ProblemAnswer]}},
            **({"headers": retry} if status in (429, 503) else {}),
        }
        for status in sorted(statuses)
    }


def _one_of(schemas: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return a schema that allows all that one of `schemas` allows."""
    distinct = [schema for index, schema in enumerate(schemas) if schema not in schemas[:index]]
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def render_docs(routes: Sequence[Route], address: str, *, has_key: bool) -> str:
    """Write the page of all routes.

    Args:
        address: the server's, for commands that can be copied.
    """
    paths: dict[tuple[str, str], list[str]] = defaultdict(list)
    for method, path, _ in iter_operations(routes):
        paths[method, canonical_path(path)].append(path)
    groups: dict[str, list[dict[str, Any]]] = {group: [] for group in PAGE_GROUPS}
    for (method, path), operation in OPERATIONS.items():
        if not paths[method, path]:  # the server has no such route
            continue
        examples = [
            _docs_example(address + path, example, has_key=has_key)
            for example in operation.examples
        ]
        groups[operation.group].append(
            {
                "method": method,
                "path": path,
                "others": [other for other in paths[method, path] if other != path],
                "operation": operation,
                "examples": examples,
            }
        )
    return render_page(
        "serving/docs.html", groups=groups, errors=ERRORS, has_key=has_key, version=__version__
    )


def _docs_example(address: str, example: RouteExample, *, has_key: bool) -> dict[str, Any]:
    return {
        "name": example.name,
        "command": curl_line(address, example, has_key=has_key),
        "answer": json.dumps(example.answer, ensure_ascii=False),
        "fields": list(fields_of(example.body)),
    }


def curl_line(address: str, example: RouteExample, *, has_key: bool) -> str:
    """Return the command that sends an example from a shell."""
    body = json.dumps(example.request, ensure_ascii=False).replace("'", "'\\''")
    header = ' -H "Authorization: Bearer $KEY"' if has_key else ""
    return f"curl {address}{header} -d '{body}'"


def fields_of(body: type[Any]) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and default of each field of a body, the required fields first."""
    # msgspec describes the body as a reference to one of the components, here by its bare name.
    (schema,), components = msgspec.json.schema_components([body], ref_template="{name}")
    object_schema = components[schema["$ref"]]
    required = object_schema["required"]
    fields = sorted(object_schema["properties"].items(), key=lambda item: item[0] not in required)
    for name, field in fields:
        if name in required:
            default = "required"
        else:
            value = field.get("default")
            default = "" if value is None or isinstance(value, dict) else json.dumps(value)
        yield name, describe_type(field, components), default


def describe_type(schema: Mapping[str, Any], components: Mapping[str, Any]) -> str:
    """Describe a JSON schema in a few words.

    >>> describe_type({"type": "array", "items": {"type": "string"}}, {})
    'list of string'
    """
    if "anyOf" in schema:
        kinds = [
            describe_type(choice, components)
            for choice in schema["anyOf"]
            if choice != {"type": "null"}
        ]
        return " or ".join(kinds)
    if "enum" in schema:
        return ", ".join(json.dumps(value) for value in schema["enum"])
    if "$ref" in schema:
        names = components[schema["$ref"]].get("properties", {})
        return f"object ({', '.join(names)})" if names else "object"
    if schema.get("type") == "array":
        inner = describe_type(schema.get("items") or {}, components)
        return f"list of {f'({inner})' if ' or ' in inner else inner}"
    return str(schema.get("type", "any"))

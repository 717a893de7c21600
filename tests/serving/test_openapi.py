"""/openapi.json has every route, and its examples are what the server takes and answers."""

import re
from typing import Literal

import msgspec
import pytest

from bertsmith.serving.app import create_app
from bertsmith.serving.engine_main import EngineSettings
from bertsmith.serving.open_paths import needs_key
from bertsmith.serving.openapi import describe_routes, describe_type, fields_of, render_docs
from bertsmith.serving.operations import ERRORS, OPERATIONS
from bertsmith.serving.service import Service

EXAMPLES = [
    pytest.param(path, example, id=f"{path} {example.name}")
    for (_, path), operation in OPERATIONS.items()
    for example in operation.examples
]
SERVED = {
    "any": "classify", "text-classification": "classify", "rerank": "regress",
    "entailment": "nli", "token-classification": "tag", "question-answering": "answer",
    "fill-mask": "masked_lm", "multiple-choice": "choose", "feature-extraction": "embed",
}  # fmt: skip
"""For each kind of model, one that the fixture `server` has."""


class Inner(msgspec.Struct):
    name: str
    size: int


class SomeBody(msgspec.Struct):
    texts: str | list[str | list[int]]
    inner: Inner
    side: Literal["left", "right"] = "right"
    count: int | None = None


@pytest.fixture(scope="module")
def routes():
    return create_app(Service(EngineSettings(models={}))).routes


def test_every_route_is_described(routes):
    described = describe_routes(routes, has_key=False)["paths"]
    assert {(route.path, method) for route in routes for method in route.methods - {"HEAD"}} == {
        (path, method.upper()) for path, methods in described.items() for method in methods
    }
    names = [one["operationId"] for methods in described.values() for one in methods.values()]
    assert len(names) == len(set(names))


def test_references_lead_to_schemas_and_parameters_are_declared(routes):
    description = describe_routes(routes, has_key=True)
    text = msgspec.json.encode(description).decode()
    schemas = description["components"]["schemas"]
    references = set(re.findall(r'"\$ref":"#/components/schemas/(\w+)"', text))
    assert references <= set(schemas)
    assert text.count('"$ref":"#/components/schemas/') == text.count('"$ref"')
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            assert ("security" in operation) == ("401" in operation["responses"])
            assert ("security" in operation) == needs_key(method.upper(), path)
            declared = [one["name"] for one in operation.get("parameters", ())]
            assert declared == re.findall(r"{(\w+)}", path)
            assert set(operation["responses"]) <= {"200", *map(str, ERRORS)}


@pytest.mark.parametrize("path, example", EXAMPLES)
def test_examples_have_the_types_that_are_described(path, example):
    msgspec.convert(example.request, example.body)
    msgspec.convert(example.answer, example.answer_type)


@pytest.mark.parametrize("path, example", EXAMPLES)
def test_examples_are_answered_as_described(path, example, server):
    model = SERVED[example.model]
    names_model = "{model}" in path or path == "/v1/embeddings"
    path = path.replace("{model}", model) if names_model else f"/models/{model}{path.rstrip('/')}"
    answer = server.post(path, {
        **example.request, **({"model": model} if path == "/v1/embeddings" else {}),
    })  # fmt: skip
    assert answer.status == 200, answer.body
    msgspec.convert(answer.json, example.answer_type)


def test_the_page_shows_every_route_and_loads_nothing(routes, tmp_path, check_page):
    html = render_docs(routes, "http://127.0.0.1:8080", has_key=True)
    shown = re.findall(r"<code>(?:GET|POST) (\S+)</code>|<code>(/\S*)</code>", html)
    assert {route.path for route in routes} <= {path for pair in shown for path in pair}
    assert html.count("$KEY") == html.count("$ curl ")
    page = tmp_path / "docs.html"
    # Its links lead to the same server, and its icon is an empty one, lest browsers ask for one.
    html = re.sub(r'<link rel="icon" href="data:,">| href="(\./|openapi.json)"', "", html)
    page.write_text(html, encoding="utf-8")
    check_page(page)


def test_types_are_described_in_words():
    fields = {name: (kind, default) for name, kind, default in fields_of(SomeBody)}
    assert fields == {
        "texts": ("string or list of (string or list of integer)", "required"),
        "inner": ("object (name, size)", "required"),
        "side": ('"left", "right"', '"right"'),
        "count": ("integer", ""),
    }
    assert describe_type({}, {}) == "any"

"""Whatever JSON a route is sent, the message names a field and what to send, in a sentence."""

import re
import time
from copy import deepcopy
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from bertsmith.serving.mismatch import describe_mismatch
from bertsmith.serving.operations import OPERATIONS

EXAMPLES = {
    example.body: example.request
    for operation in OPERATIONS.values()
    for example in operation.examples
}
"""A right request for each body."""


class Inner(Struct, forbid_unknown_fields=True):
    name: str
    side: Literal["left", "right"] = "left"
    sizes: tuple[Annotated[int, Meta(ge=1)], ...] = ()


class Body(Struct, forbid_unknown_fields=True):
    inputs: str | Inner | list[str | Inner]
    table: dict[str, float] | None = None
    is_fast: bool = False


def message(content, kind=Body, within=""):
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(content, kind)
    return describe_mismatch(caught.value, kind, within)


@pytest.mark.parametrize("content, expected", [
    ({}, "inputs: this field is missing. The fields of the body are inputs, table, is_fast."),
    ({"input": "a"},
     "input: there is no such field. The fields of the body are inputs, table, is_fast."),
    ([], "the body: found a list. Send an object."),
    ({"inputs": 1.5}, "inputs: found a number. Send a string, an object or a list."),
    ({"inputs": ["a", None]}, "inputs[1]: found null. Send a string or an object."),
    ({"inputs": ["a", {}]},
     "inputs[1].name: this field is missing. The fields of inputs[1] are name, side, sizes."),
    ({"inputs": {"name": "a", "size": 1}},
     "inputs.size: there is no such field. The fields of inputs are name, side, sizes."),
    ({"inputs": {"name": "a", "side": "up"}},
     "inputs.side: found 'up'. Send 'left' or 'right'."),
    ({"inputs": {"name": "a", "sizes": [1, 0]}},
     "inputs.sizes[1]: found a number below 1. Send 1 or more."),
    ({"inputs": "a", "table": {"b": "c"}}, "table[...]: found a string. Send a number."),
    ({"inputs": "a", "is_fast": "yes"}, "is_fast: found a string. Send true or false."),
])  # fmt: skip
def test_the_field_is_named_with_what_it_takes(content, expected):
    assert message(content) == expected


def test_an_object_within_the_body_is_named():
    assert message({"side": "left"}, Inner, "parameters") == (
        "parameters.name: this field is missing. The fields of parameters are name, side, sizes."
    )
    assert message([], Inner, "parameters") == "parameters: found a list. Send an object."


@pytest.mark.parametrize("name", [
    "[" * 200_000, " - at `$" * 30_000, f"x` - at `${'[a' * 100_000}", "a\n" * 100_000,
    "inputs" + "[0]" * 60_000,
])  # fmt: skip
def test_a_long_name_takes_no_time_and_is_shortened(name):
    started_at = time.process_time()
    sentence = message({name: 1})
    # Work that grows with the square of the length takes minutes here.
    assert time.process_time() - started_at < 5
    assert len(sentence) < 300


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["inputs", "name", "text", "x"]), inner, max_size=3)
    ),
    max_leaves=5,
)


def places_in(value):
    """Yield each list or object in a value with each of its indices or keys."""
    keys = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places_in(value[key])


@st.composite
def damaged(draw):
    """Draw a body's type, and a request for it with one value replaced, added or removed."""
    kind = draw(st.sampled_from(list(EXAMPLES)))
    whole = {"request": deepcopy(EXAMPLES[kind])}
    parent, key = draw(st.sampled_from(list(places_in(whole))))
    change = draw(st.sampled_from(["replace", "add", "remove"]))
    if change == "add" and isinstance(parent[key], dict):
        parent[key]["surplus"] = None
    elif change == "remove" and parent is not whole:
        del parent[key]
    else:
        parent[key] = draw(JSON)
    return kind, whole["request"]


@given(damaged())
def test_no_damage_gives_words_of_a_library(kind_and_request):
    kind, request = kind_and_request
    try:
        msgspec.convert(request, kind)
    except msgspec.ValidationError as error:
        sentence = describe_mismatch(error, kind)
        assert re.fullmatch(r"(the body|[\w.\[\]]+): .*\.", sentence), sentence
        assert not re.search(r"[`$]|msgspec|Struct|\bNone\b", sentence)

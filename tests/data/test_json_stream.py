"""Elements of a list in a JSON file come one at a time, in chunks of any size."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_peak import peak
from refusals import refuses

from bertsmith.data import text_files
from bertsmith.data.json_stream import iter_elements
from bertsmith.errors import InputError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=7,
)


@settings(max_examples=50)
@given(
    before=st.dictionaries(st.text().filter(lambda key: key != "data"), VALUES, max_size=2),
    elements=st.lists(VALUES, max_size=5),
    after=st.dictionaries(st.text().filter(lambda key: key != "data"), VALUES, max_size=2),
    is_ascii=st.booleans(),
    indent=st.sampled_from([None, 0, 3]),
    size=st.sampled_from([1, 2, 7, 1000]),
)
def test_elements_are_those_of_the_whole(
    tmp_path_factory, before, elements, after, is_ascii, indent, size
):
    value = {**before, "data": elements, **{k: v for k, v in after.items() if k not in before}}
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    if "\0" in text or "\ud800" <= max(text) <= "\udfff":
        return
    path = tmp_path_factory.getbasetemp() / "a.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "CHUNK_BYTES", size)
        assert list(iter_elements(path, "data")) == elements


@pytest.mark.parametrize("text, parts", [
    ("", []), ('{"date": [], "x": {}}', ["'data'", "'date', 'x'"]),
    ('["a"]', ["an object", "'data'"]), ('{"data": [1], "data": [2]}', ["'data'", "twice"]),
    ('{"data": {"a": 1}}', ["'data'", "an object", "a list"]),
    ('{"data": [1\n 2]}', [":2:", "',' or ']'", "column 2)"]),
    ('{"data": [1, ', [":1:", "column 14)", "ends too early"]),
    ('{"data": [1, "abc', [":1:", "Unterminated", "column 14)", "ends too early"]),
    ("{data: [1]}", [":1:", "a key in double quotes", "column 2)"]),
    ('{"data": [1]}\n{"data": [2]}', [":2:", "column 1)"]),
    ('{"data": ' + "[" * 200_000, [":1:", "column 11)"]),
])  # fmt: skip
def test_what_is_no_such_list(tmp_path, monkeypatch, text, parts):
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 3)
    (tmp_path / "a.json").write_text(text)
    with refuses(InputError, "a.json:", *parts, worded="ends too early" not in parts):
        list(iter_elements(tmp_path / "a.json", "data"))


def test_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b'{"data": ["\xe4"]}')
    with refuses(InputError, "a.json:", "byte 11", "0xe4", "UTF-8"):
        list(iter_elements(path, "data"))


def test_memory_is_that_of_an_element(tmp_path):
    path = tmp_path / "a.json"
    element = json.dumps({"text": "word " * 500})
    path.write_text('{"data": [' + f"{element}," * 3000 + "0]}")  # 7.5 MB
    assert peak(lambda: sum(1 for _ in iter_elements(path, "data"))) < 4e6

"""JSON that is nested too deep is damage like any other, wherever it is read."""

import ast
from pathlib import Path

import pytest

import bertsmith
from bertsmith.data.json_rows import as_json, decode_row
from bertsmith.data.label_values import label_values
from bertsmith.data.parquet_classes import parquet_class_names
from bertsmith.estimators.pretrain_inputs import PretrainInputs
from bertsmith.system.json_text import TOO_DEEP, parse_json
from bertsmith.system.measurements import forget
from bertsmith.tasks.multi_label_baselines import MultiLabelBaselines
from bertsmith.vocabulary.origin import ORIGIN_NAME, model_of_tokenizer

pytestmark = pytest.mark.same_on_all_computers
DEPTH = 100_000
DEEP = f'{{"a": {"[" * DEPTH}{"]" * DEPTH}}}'
PACKAGE = Path(bertsmith.__file__).parent


def test_what_is_nested_too_deep_is_a_value_error():
    assert parse_json(b'{"a": [1]}') == {"a": [1]}
    for parse in (parse_json, decode_row):
        with pytest.raises(ValueError) as caught:
            parse(DEEP)
        assert str(caught.value) == TOO_DEEP
    value = []
    for _ in range(DEPTH):
        value = [value]
    with pytest.raises(ValueError) as caught:
        as_json(value)
    assert str(caught.value) == TOO_DEEP


def test_facts_that_cannot_be_read_are_none(tmp_path, monkeypatch):
    for name in (ORIGIN_NAME, "inputs.json", "bertsmith/measurements.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(DEEP)
    assert model_of_tokenizer(tmp_path) is None
    assert PretrainInputs(tmp_path / "inputs.json").read_built({}) == []
    assert parquet_class_names({b"huggingface": DEEP.encode()}) == {}
    assert label_values([DEEP], "int") == (DEEP,)
    assert not MultiLabelBaselines().is_gold_key(DEEP)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    forget("a processor")
    assert (tmp_path / "bertsmith" / "measurements.json").read_text().strip() == "{}"


def test_a_feature_that_is_nested_deep_is_searched_to_its_end():
    feature = '{"feature": ' * 400 + '{"names": ["a"], "_type": "ClassLabel"}' + "}" * 400
    info = f'{{"info": {{"features": {{"tags": {feature}}}}}}}'
    assert parquet_class_names({b"huggingface": info.encode()}) == {"tags": ["a"]}


def test_no_other_module_parses_json():
    others = {
        PACKAGE / "system" / "json_text.py",
        PACKAGE / "data" / "json_rows.py",
        PACKAGE / "errors" / "option_names.py",  # a single string, which nests nothing
    }
    for path in sorted(set(PACKAGE.rglob("*.py")) - others):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_json = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            if is_json and node.value.id == "json":
                assert node.attr not in ("load", "loads", "JSONDecoder"), path

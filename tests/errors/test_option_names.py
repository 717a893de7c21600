"""A message names options once; the command line, Python and JSON each spell them."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from bertsmith.config import from_mapping
from bertsmith.errors import (
    BertsmithWarning,
    ConfigError,
    InputError,
    SettingError,
    as_arguments,
    as_fields,
    as_flags,
    option,
)
from bertsmith.errors.option_names import options_in
from bertsmith.training.settings import TrainingSettings


@pytest.mark.parametrize(("named", "flag", "argument", "field"), [
    (option("max_length"), "--max-length", "max_length", '"max_length"'),
    (option("max_length", 64), "--max-length 64", "max_length=64", '"max_length": 64'),
    (option("dropout", np.float32(0.5)), "--dropout 0.5", "dropout=0.5", '"dropout": 0.5'),
    (option("resume", True), "--resume", "resume=True", '"resume": true'),
    (option("lowercase", False), "--no-lowercase", "lowercase=False", '"lowercase": false'),
    (option("from", Path("runs/a b")), "--from 'runs/a b'", "from_='runs/a b'",
     '"from": "runs/a b"'),
    (option("from_", placeholder="DIR"), "--from DIR", "from_=DIR", '"from": "DIR"'),
    (option("learn", "IOB2"), "--learn IOB2", "learn='IOB2'", '"learn": "IOB2"'),
    (option("training.seed", 3), "--seed 3", "seed=3", '"seed": 3'),
    (option("label_column", "标签"), "--label-column '标签'", "label_column='标签'",
     '"label_column": "标签"'),
    (option("label_separator", "|"), "--label-separator '|'", "label_separator='|'",
     '"label_separator": "|"'),
    (option("class_weights", {"a=b": 3}), "--class-weights a=b=3", "class_weights={'a=b': 3}",
     '"class_weights": {"a=b": 3}'),
])  # fmt: skip
def test_three_spellings(named, flag, argument, field):
    message = f"Give {named}, or not."
    assert as_flags(message) == f"Give {flag}, or not."
    assert as_arguments(message) == f"Give {argument}, or not."
    assert as_fields(message) == f"Give {field}, or not."


def test_what_only_looks_like_an_option_stays():
    text = "Run zstd -d --long=31 on \ue0f0 and 'bertsmith fill --top 3'."
    assert as_flags(text) == as_arguments(text) == text


@pytest.mark.parametrize("value", ["word 1", "int one", "float x", "dict a", "dict a=b"])
def test_marks_in_a_text_of_the_user_stay(value):
    text = f"a \ue0f0film\ue0f1{value}\ue0f2 that"
    assert as_flags(text) == as_arguments(text) == as_fields(text) == text
    assert [named.path for named in options_in(f"{text} or {option('top')}")] == ["top"]


def test_options_in_json_are_spelled():
    note = f"Lengthen it ({option('max_length', 64)}), or {option('resume', True)}."
    spelled = "Lengthen it (--max-length 64), or --resume."
    for escaped in (True, False):
        assert json.loads(as_flags(json.dumps(note, ensure_ascii=escaped))) == spelled


@pytest.mark.parametrize("value", ["it's", 'a "b"', "back\\slash", "café", "two\nlines"])
def test_json_stays_valid_with_any_value(value):
    note = f"Give {option('label_separator', value)} or {option('label_column', placeholder='N')}."
    for spell in (as_flags, as_arguments, as_fields):
        assert json.loads(spell(json.dumps(note))) == spell(note)


def test_an_error_keeps_its_options_within_another():
    inner = InputError(f"no column; choose one with {option('text_column')}")
    outer = ConfigError(f"a.csv: {inner.message}")
    assert str(outer) == "a.csv: no column; choose one with text_column"
    assert as_flags(pickle.loads(pickle.dumps(outer)).message).endswith("--text-column")
    assert outer.to_json() == {
        "type": "ConfigError",
        "message": 'a.csv: no column; choose one with "text_column"',
        "options": ["text_column"],
    }


@pytest.mark.parametrize(("error", "python", "flags"), [
    (SettingError("training.batch_size", 0, "1 or more"),
     "batch_size: found 0; allowed is 1 or more.", "--batch-size: found 0; allowed is 1 or more."),
    (SettingError("device", "tpu", ("auto", "cpu", "cuda"), f"Use {option('device', 'auto')}."),
     "device: found 'tpu'; allowed are auto, cpu and cuda. Use device='auto'.",
     "--device: found 'tpu'; allowed are auto, cpu and cuda. Use --device auto."),
    (SettingError("out", Path("a.txt"), "a name that ends in .npy"),
     "out: found 'a.txt'; allowed is a name that ends in .npy.",
     "--out: found 'a.txt'; allowed is a name that ends in .npy."),
])  # fmt: skip
def test_a_setting_that_is_not_allowed(error, python, flags):
    assert (str(error), as_flags(error.message)) == (python, flags)
    again = pickle.loads(pickle.dumps(error))
    assert (again.setting, again.found, again.allowed) == (
        error.setting, error.found, error.allowed,
    )  # fmt: skip


def test_a_setting_as_json():
    error = SettingError("keep", -1, "0 or more", f"Leave {option('keep')} out.")
    assert error.to_json() == {
        "type": "SettingError",
        "message": '"keep": found -1; allowed is 0 or more. Leave "keep" out.',
        "options": ["keep", "keep"],
        "setting": "keep",
        "found": -1,
        "allowed": "0 or more",
        "advice": 'Leave "keep" out.',
    }


def test_a_setting_of_a_recipe_keeps_its_parts():
    with pytest.raises(SettingError) as caught:
        from_mapping(TrainingSettings, {"steps": 1, "batch_size": 0}, "hour.toml")
    assert as_flags(caught.value.message) == str(caught.value)
    assert str(caught.value) == "hour.toml: batch_size: found 0; allowed is 1 or more."
    assert caught.value.to_json() == {
        "type": "SettingError",
        "message": "hour.toml: batch_size: found 0; allowed is 1 or more.",
        "options": ["batch_size"],
        "setting": "batch_size",
        "found": 0,
        "allowed": "1 or more",
        "advice": "",
    }


def test_warnings_name_arguments():
    assert str(BertsmithWarning(f"a larger {option('max_length')} helps")) == (
        "a larger max_length helps"
    )

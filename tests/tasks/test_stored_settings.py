"""Settings of a task in config.json, which users edit by hand."""

import json

import pytest
from refusals import refuses
from tiny_models import save_tiny

from bertsmith.errors import CheckpointError
from bertsmith.tasks.auto import load

HEADS_AND_LABELS = {
    "classify": (["classify"], ("neg", "pos")),
    "multi_label": (["multi_label"], ("a", "b")),
    "tag": (["tag"], ("B-PER", "I-PER", "O")),
    "answer": (["answer"], ()),
    "embed": ([], ()),
}


@pytest.fixture
def save(tmp_path):
    """Write a model of a task, with these settings."""

    def write(kind, **settings):
        heads, labels = HEADS_AND_LABELS[kind]
        save_tiny(tmp_path, *heads, labels=labels)
        file = tmp_path / "config.json"
        entries = json.loads(file.read_text())
        file.write_text(json.dumps({**entries, "bertsmith": {"task": kind, **settings}}))
        (tmp_path / "SHA256SUMS").unlink()
        return tmp_path

    return write


@pytest.mark.same_on_all_computers
@pytest.mark.parametrize(("task", "name", "value", "allowed"), [
    ("classify", "long_texts", "truncate", "window, cut"),
    ("classify", "stride", "10", "a number"),
    ("classify", "stride", float("nan"), "a number"),
    ("classify", "label_kind", ["int"], "int, float, bool"),
    ("classify", "pairs", 1, "true or false"),
    ("multi_label", "threshold", "0.7", "a number"), ("multi_label", "threshold", 1, "below 1"),
    ("multi_label", "label_separator", "", "text, such as ','"),
    ("tag", "scheme", "BIO", "IOB2"),
    ("tag", "split", ["words"], "characters"),
    ("answer", "max_answer_length", 0, "above 0"),
    ("answer", "may_abstain", "yes", "true or false"),
    ("embed", "loss", "triplet", "contrastive"),
    ("embed", "temperature", 0, "above 0"),
    ("embed", "score_range", [5, 0], "the lower one first"),
    pytest.param("classify", "stride", 10**400, "a number", id="a number that no float holds"),
])  # fmt: skip
def test_values_that_are_not_allowed(save, task, name, value, allowed):
    with refuses(CheckpointError, f"config.json: '{name}' of 'bertsmith' is ", allowed):
        load(save(task, **{name: value}))


@pytest.mark.same_on_all_computers
@pytest.mark.parametrize("task", ["classify", "tag", "answer", "embed"])
def test_null_and_unknown_names_change_nothing(save, task):
    names = ("long_texts", "stride", "scheme", "split", "pairs", "max_answer_length", "columns")
    definition = load(save(task)).definition
    assert load(save(task, later=1, **dict.fromkeys(names))).definition == definition


def test_a_task_may_have_no_name(save):
    folder = save("classify", task=["classify"])
    (prediction,) = load(folder).predict(["a film"])
    assert prediction.answer in ("neg", "pos")

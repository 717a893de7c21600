"""A CrossEncoder's number is what its folder says: a sigmoid of the output, or the output."""

import json
import math
from dataclasses import replace

import pytest
import torch
from refusals import refuses
from sentence_transformers import CrossEncoder
from tiny_models import save_tiny
from transformers import pipeline

from bertsmith.errors import BertsmithWarning, CheckpointError
from bertsmith.tasks.auto import load
from bertsmith.tasks.regression import Regress

NEW, MODEL = "config_sentence_transformers.json", "config.json"
SIGMOID, IDENTITY = "torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity"
OLD = "sbert_ce_default_activation_function"
PAIR = ("the film was good", "a fine story")


@pytest.fixture
def folder(tmp_path):
    """A folder with one output, which names no task of ours."""
    return save_tiny(tmp_path / "m", "regress")


def without_problem_type(folder):
    settings = json.loads((folder / MODEL).read_text())
    del settings["problem_type"]
    (folder / MODEL).write_text(json.dumps(settings))
    (folder / "SHA256SUMS").unlink(missing_ok=True)


def change(folder, name, **entries):
    file = folder / name
    settings = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({k: v for k, v in (settings | entries).items() if v is not None}))
    (folder / "SHA256SUMS").unlink(missing_ok=True)


def number(folder):
    return load(folder, device="cpu", precision="fp32")(*PAIR).value


@pytest.mark.parametrize(
    ("changes", "is_sigmoid"),
    [
        ({NEW: {"model_type": "SentenceTransformer"}}, False),
        ({NEW: {"model_type": "CrossEncoder", "activation_fn": SIGMOID}}, True),
        ({NEW: {"model_type": "CrossEncoder", "activation_fn": IDENTITY}}, False),
        ({NEW: {"model_type": "CrossEncoder"}}, True),
        ({MODEL: {"sentence_transformers": {"activation_fn": SIGMOID}}}, True),
        ({MODEL: {"sentence_transformers": {"activation_fn": IDENTITY}}}, False),
        ({MODEL: {"sentence_transformers": {"version": "4.1.0"}}}, True),
        ({MODEL: {OLD: "torch.nn.modules.linear.Identity"}}, False),
        ({MODEL: {OLD: SIGMOID}}, True),
        # The newest place comes first, as in sentence-transformers.
        (
            {
                NEW: {"model_type": "CrossEncoder", "activation_fn": IDENTITY},
                MODEL: {OLD: SIGMOID},
            },
            False,
        ),
    ],
)
@pytest.mark.parametrize("has_problem_type", [True, False])
def test_the_activation_of_a_cross_encoder_is_applied(
    folder, changes, is_sigmoid, has_problem_type
):
    logit = number(folder)
    if not has_problem_type:
        if changes == {NEW: {"model_type": "SentenceTransformer"}}:
            return  # see below
        without_problem_type(folder)
    for name, entries in changes.items():
        change(folder, name, **entries)
    expected = 1 / (1 + math.exp(-logit)) if is_sigmoid else logit
    assert number(folder) == pytest.approx(expected, abs=1e-6)


def test_one_output_of_which_a_folder_says_nothing_brings_a_warning(folder):
    logit = number(folder)
    without_problem_type(folder)
    with pytest.warns(BertsmithWarning) as told:
        assert number(folder) == pytest.approx(logit, abs=1e-6)
    message = str(told[0].message)
    # What the warning says of others, and what it advises, hold.
    theirs = CrossEncoder(str(folder), device="cpu").predict([PAIR])[0].item()
    pipe = pipeline("text-classification", str(folder), device="cpu")
    (answer,) = pipe([{"text": PAIR[0], "text_pair": PAIR[1]}])
    sure = 1 / (1 + math.exp(-logit))
    assert (theirs, answer["score"]) == (pytest.approx(sure, abs=1e-5),) * 2
    assert f'"{OLD}": "{SIGMOID}"' in message and '"problem_type": "regression"' in message
    change(folder, MODEL, **{OLD: SIGMOID})
    assert number(folder) == pytest.approx(sure, abs=1e-6)
    change(folder, MODEL, **{OLD: None}, problem_type="regression")
    assert number(folder) == pytest.approx(logit, abs=1e-6)


def test_a_cross_encoder_reads_pairs_alone(folder, tmp_path, bertsmith, refused):
    table, found = tmp_path / "pairs.csv", tmp_path / "found.csv"
    table.write_text("text_a,text_b\nthe film,good\n")
    assert load(folder).definition.pairs is None
    assert bertsmith("predict", folder, "--file", table, "--out", found) == f"1 pair → {found}\n"
    change(folder, NEW, model_type="CrossEncoder", activation_fn=SIGMOID)
    assert load(folder).definition.pairs
    assert "a text and its pair, but 1 text was given" in refused("predict", folder, PAIR[0])
    (line,) = bertsmith("predict", folder, *PAIR, "--precision", "fp32").splitlines()
    assert float(line.split()[0]) == pytest.approx(number(folder), abs=1e-3)
    table.write_text("text\nthe film\n")
    assert "--pair-column" in refused("predict", folder, "--file", table)


@pytest.fixture
def chooser(tmp_path):
    """A CrossEncoder's folder with three outputs, of each of which it takes the sigmoid."""
    before = save_tiny(tmp_path / "pretrained", "masked_lm")
    encoder = CrossEncoder(
        str(before), num_labels=3, activation_fn=torch.nn.Sigmoid(), device="cpu"
    )
    encoder.save_pretrained(str(tmp_path / "several"))
    return tmp_path / "several"


@pytest.mark.parametrize("place", [NEW, MODEL])
def test_a_sigmoid_of_each_of_several_outputs_asks_which_is_meant(chooser, place):
    theirs = CrossEncoder(str(chooser), device="cpu").predict([PAIR])[0]
    if place == MODEL:
        change(chooser, NEW, activation_fn=None)
        change(chooser, MODEL, sentence_transformers={"activation_fn": SIGMOID})
    with refuses(CheckpointError, f"{place}: ", '"problem_type": "multi_label_classification"'):
        load(chooser)
    change(chooser, MODEL, problem_type="multi_label_classification")
    found = load(chooser, device="cpu", precision="fp32")(*PAIR).probabilities
    assert list(found.values()) == pytest.approx(theirs.tolist(), abs=1e-5)
    change(chooser, MODEL, problem_type="single_label_classification")
    assert sum(load(chooser, device="cpu")(*PAIR).probabilities.values()) == pytest.approx(1)


def test_several_outputs_as_they_are_and_their_softmax_are_read(chooser):
    change(chooser, NEW, activation_fn=None)
    before = load(chooser, device="cpu")(*PAIR)
    for name in (IDENTITY, "torch.nn.modules.activation.Softmax", "torch.nn.Softmax"):
        change(chooser, NEW, activation_fn=name)
        assert load(chooser, device="cpu")(*PAIR) == before
    change(chooser, NEW, activation_fn="torch.nn.modules.activation.Tanh")
    with refuses(CheckpointError, f"{NEW}: ", "Tanh", "torch.nn.Softmax and torch.nn.Identity"):
        load(chooser)


@pytest.mark.parametrize(
    ("name", "entries"),
    [
        (NEW, {"activation_fn": "torch.nn.modules.activation.Tanh"}),
        (MODEL, {OLD: "mine.Sigmoid"}),
        (MODEL, {"sentence_transformers": {"activation_fn": ["Sigmoid"]}}),
    ],
)
def test_other_activations_are_refused(folder, name, entries):
    change(folder, name, **entries)
    with refuses(CheckpointError, f"{name}: ", "torch.nn.Sigmoid and torch.nn.Identity"):
        load(folder)


def test_prompts_of_a_cross_encoder_are_refused(folder):
    prompts = {"default_prompt_name": "query", "prompts": {"query": "query: "}}
    change(folder, NEW, model_type="CrossEncoder", **prompts)
    with refuses(CheckpointError, f"{NEW}: ", '"query: "'):
        load(folder)


def test_our_own_folders_keep_what_they_are(folder):
    change(folder, MODEL, sentence_transformers={"version": "5.0.0"})
    for activation in ("identity", "sigmoid"):
        settings = {"task": "regress", **Regress(activation=activation).task_settings}
        change(folder, MODEL, bertsmith=settings)
        assert load(folder).definition.activation == activation


def test_a_student_learns_what_a_cross_encoder_answers():
    student = replace(Regress(), mean=0.4, deviation=0.2).with_teacher_labels(
        Regress(activation="sigmoid")
    )
    logits = torch.tensor([[-1.0], [0.5]])
    learned = (logits.sigmoid() - 0.4) / 0.2
    assert student.compare_with_teacher(learned, logits, 1.0)[0].item() == pytest.approx(0.0)

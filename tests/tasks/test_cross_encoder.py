"""A CrossEncoder's number is what its folder says: a sigmoid of the output, or the output."""

import json
import math
from dataclasses import replace

import pytest
import torch
from refusals import refuses
from tiny_models import save_tiny

from bertsmith.errors import CheckpointError
from bertsmith.tasks.auto import load
from bertsmith.tasks.regression import Regress

NEW, MODEL = "config_sentence_transformers.json", "config.json"
SIGMOID, IDENTITY = "torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity"
OLD = "sbert_ce_default_activation_function"
PAIR = ("the film was good", "a fine story")


@pytest.fixture
def folder(tmp_path):
    """A folder with one output, as transformers writes it."""
    folder = save_tiny(tmp_path / "m", "regress")
    change(folder, MODEL, problem_type=None)
    return folder


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
        ({}, False),
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
def test_the_activation_of_a_cross_encoder_is_applied(folder, changes, is_sigmoid):
    logit = number(folder)
    for name, entries in changes.items():
        change(folder, name, **entries)
    expected = 1 / (1 + math.exp(-logit)) if is_sigmoid else logit
    assert number(folder) == pytest.approx(expected, abs=1e-6)


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

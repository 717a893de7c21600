"""Errors name arguments to whoever calls Python, and flags to whoever types a command."""

import copy
import functools
import pickle
import re

import pandas
import pytest
from tiny_models import reviews, save_tiny

import bertsmith
from bertsmith.errors import BertsmithError
from bertsmith.model.saving import write_task_settings
from bertsmith.system.argument_names import as_arguments
from bertsmith.tasks.text_classification import Classify

TEXTS = [example.text for example in reviews(24)]
LABELS = [example.label for example in reviews(24)]
FRAME = pandas.DataFrame({"text": TEXTS, "label": LABELS})
LONG = "a good film " * 20
CPU = {"device": "cpu", "precision": "fp32"}
NOT_HERE = {"device": "cuda:99"}
NO_DEVICE = "Use device='auto'"
BOTH_POOLINGS = '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A classifier whose windows share more tokens than short ones may; its pooling is unclear."""
    folder = save_tiny(tmp_path_factory.mktemp("m") / "m", "classify", labels=("neg", "pos"))
    write_task_settings(folder, {"long_texts": "window", "stride": 18})
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(BOTH_POOLINGS)
    return folder


def narrow(folder):
    return bertsmith.load(folder, max_length=20, **CPU)


def estimator(folder, **settings):
    return bertsmith.TextClassifier(folder, **{"steps": 1, "threads": 1} | CPU | settings)


@functools.cache
def fitted(folder):
    return estimator(folder).fit(TEXTS, LABELS, show_progress=False)


STRIDE = "stride: found 18; windows of 20 tokens may share 0 to 10"
CALLS = {
    "load": (lambda it: bertsmith.load(it, **NOT_HERE), NO_DEVICE),
    "pretrain": (
        lambda it: bertsmith.pretrain(TEXTS, out=it / "run", steps=1, resume=True), "out resume to"
    ),
    "Predictor.load": (lambda it: bertsmith.Predictor.load(it, Classify, **NOT_HERE), NO_DEVICE),
    "Predictor.__call__": (lambda it: narrow(it)(LONG), STRIDE),
    "Predictor.predict": (lambda it: narrow(it).predict([LONG]), STRIDE),
    "Predictor.iter_predictions": (lambda it: [*narrow(it).iter_predictions([LONG])], STRIDE),
    "Predictor.probabilities": (lambda it: narrow(it).probabilities([LONG]), STRIDE),
    "Predictor.num_tokens": (
        lambda it: narrow(it).num_tokens(narrow(it).example({"text": LONG})), STRIDE
    ),
    "Predictor.encode": (lambda it: narrow(it).encode(LONG), "with pooling, or in this file"),
    "Predictor.similarity": (lambda it: narrow(it).similarity("a", "b"), "with pooling, or in"),
    "Predictor.to": (lambda it: narrow(it).to("cuda:99"), NO_DEVICE),
    "fit": (
        lambda it: estimator(it, dropout=2.0).fit(TEXTS, LABELS), "dropout: found 2.0; allowed"
    ),
    "predict": (lambda it: fitted(it).predict(FRAME, text_column="a"), "with text_column"),
    "predict_proba": (
        lambda it: fitted(it).predict_proba(FRAME, text_column="a"), "with text_column"
    ),
    "score": (lambda it: fitted(it).score(FRAME, label_column="a"), "with label_column"),
    "evaluate": (lambda it: fitted(it).evaluate(FRAME, label_column="a"), "with label_column"),
    "pickle": (
        lambda it: pickle.loads(pickle.dumps(copy.copy(fitted(it)).set_params(**NOT_HERE))),
        NO_DEVICE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_python_reads_arguments(folder, name):
    call, message = CALLS[name]
    with pytest.raises(BertsmithError, match=re.escape(message)) as error:
        call(folder)
    assert not re.search("--[a-z]", str(error.value))


COMMANDS = {
    "predict @ --file F --max-length 20 --precision fp32": "--stride: found 18; windows of 20",
    "predict @ --file F --text-column nope": "Name it with --text-column",
    "predict @ text --device cuda:99": "Use --device auto",
    "evaluate @ --data F --max-length 20 --precision fp32": "--stride: found 18; windows of 20",
    "embed @ F --out v.npy": "with --pooling, or in this file",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_read_flags(folder, tmp_path, monkeypatch, refused, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "F.csv").write_text(f"text,label\n{LONG},pos\n")
    words = command.replace("@", str(folder)).replace("F", "F.csv").split()
    assert COMMANDS[command] in refused(*words)


def test_flags_of_other_programs_stay():
    assert as_arguments("Run zstd -d --long=31, or leave --limit out.").startswith(
        "Run zstd -d --long=31, or leave limit"
    )

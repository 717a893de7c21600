"""Errors name arguments to whoever calls Python, and flags to whoever types a command."""

import pandas
import pytest
from tiny_models import reviews, save_tiny

import bertsmith
from bertsmith.errors import BertsmithError
from bertsmith.model.saving import write_task_settings
from bertsmith.system.argument_names import as_arguments

TEXTS = [example.text for example in reviews(24)]
LABELS = [example.label for example in reviews(24)]
FRAME = pandas.DataFrame({"text": TEXTS, "label": LABELS})
LONG = "a good film " * 20
CPU = {"device": "cpu", "precision": "fp32"}
BOTH_POOLINGS = '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}'
STRIDE = "stride: found 18; windows of 20"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A classifier whose windows share more tokens than short ones may; its pooling is unclear."""
    folder = save_tiny(tmp_path_factory.mktemp("m") / "m", "classify", labels=("neg", "pos"))
    write_task_settings(folder, {"long_texts": "window", "stride": 18})
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(BOTH_POOLINGS)
    return folder


def test_python_reads_arguments(folder):
    narrow = bertsmith.load(folder, max_length=20, **CPU)
    fitted = bertsmith.TextClassifier(folder, steps=1, threads=1, **CPU)
    fitted.fit(TEXTS, LABELS, show_progress=False)
    for call, message in (
        (lambda: bertsmith.load(folder, device="cuda:99"), "Use device='auto'"),
        (lambda: narrow([LONG]), STRIDE),
        (lambda: narrow.encode(LONG), "with pooling, or in this file"),
        (lambda: fitted.predict(FRAME, text_column="a"), "with text_column"),
        (lambda: fitted.evaluate(FRAME, label_column="a"), "with label_column"),
    ):
        with pytest.raises(BertsmithError, match=message) as error:
            call()
        assert "--" not in str(error.value)


@pytest.mark.parametrize(
    "command, message",
    [
        ("predict @ --file F --max-length 20 --precision fp32", f"--{STRIDE}"),
        ("predict @ --file F --text-column nope", "Name it with --text-column"),
        ("embed @ F --out v.npy", "with --pooling, or in this file"),
    ],
)
def test_commands_name_flags(folder, tmp_path, monkeypatch, refused, command, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "F.csv").write_text(f"text,label\n{LONG},pos\n")
    words = command.replace("@", str(folder)).replace("F", "F.csv").split()
    assert message in refused(*words)


def test_flags_of_other_programs_stay():
    assert as_arguments("Run zstd -d --long=31, or leave --limit out.").startswith(
        "Run zstd -d --long=31, or leave limit"
    )

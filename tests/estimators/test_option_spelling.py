"""Errors name arguments to whoever calls Python, and flags to whoever types a command."""

import pandas
import pytest
from refusals import refuses
from tiny_models import reviews, save_tiny

import bertsmith
from bertsmith.errors import BertsmithError
from bertsmith.model.saving import write_task_settings

TEXTS = [example.text for example in reviews(24)]
LABELS = [example.label for example in reviews(24)]
FRAME = pandas.DataFrame({"text": TEXTS, "label": LABELS})
LONG = "a good film " * 20
CPU = {"device": "cpu", "precision": "fp32"}
BOTH_POOLINGS = '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}'
STRIDE = ["stride: found 18", " 20 ", "0 to 10"]


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
    for call, parts in (
        (lambda: bertsmith.load(folder, device="cuda:99"), ["'cuda:99'", "device='auto'"]),
        (lambda: narrow([LONG]), STRIDE),
        (lambda: narrow.encode(LONG), ["1_Pooling/config.json: ", "with pooling"]),
        (lambda: fitted.predict(FRAME, text_column="a"), ["'a'", "text_column"]),
        (lambda: fitted.evaluate(FRAME, label_column="a"), ["'a'", "label_column"]),
    ):
        with refuses(BertsmithError, *parts, worded="'cuda:99'" not in parts) as error:
            call()
        assert "--" not in str(error.value)


@pytest.mark.parametrize("command, parts", [
    ("predict @ --file F --max-length 20 --precision fp32", ["--stride", *STRIDE]),
    ("predict @ --file F --text-column nope", ["F.csv: ", "'nope'", "--text-column"]),
    ("embed @ F --out v.npy", ["1_Pooling/config.json: ", "--pooling"]),
])  # fmt: skip
def test_commands_name_flags(folder, tmp_path, monkeypatch, refused, command, parts):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "F.csv").write_text(f"text,label\n{LONG},pos\n")
    words = command.replace("@", str(folder)).replace("F", "F.csv").split()
    line = refused(*words)
    assert all(part in line for part in parts)

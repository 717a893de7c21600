"""Several labels for a text, or none: how they are written, learnt and told."""

import json
from dataclasses import replace

import pytest
from refusals import refuses
from samples import prepare
from tiny_models import save_tiny
from tiny_runs import FP32

from bertsmith.data.columns import Columns
from bertsmith.data.labels import label_set
from bertsmith.errors import ConfigError, InputError
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.evaluation.score import score_class_files
from bertsmith.evaluation.settings import ClassColumns
from bertsmith.finetuning.run import finetune
from bertsmith.tasks.auto import load
from bertsmith.tasks.multi_label_classification import MultiLabel
from bertsmith.tasks.text_classification import Classify


@pytest.fixture
def settings(tmp_path):
    return prepare("classify --multi-label", tmp_path, 31, 17)[1]


def test_labels_are_read_in_every_spelling(settings, tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [["x", "y,z"], "x| y |x", "", [], None, ["y,z"]]
    path.write_text("".join(json.dumps({"text": "t", "label": row}) + "\n" for row in rows))
    examples = list(MultiLabel().reader(path, None, labelled=True))
    found = [label_set(example, "|") for example in examples]
    assert found == [("x", "y,z"), ("x", "y"), (), (), (), ("y,z",)]


FLAGS = {
    "named.csv": "id,text,Toxic,rude\n1,a,1,0\n2,b,0,0\n3,c,1.0,True\n",
    "bare.tsv": "1\ta\t1\t0\n2\tb\t0\t0\n3\tc\t1\t1\n",
    "objects.jsonl": """{"text": "a", "Toxic": true, "rude": 0}
{"text": "b", "Toxic": false, "rude": 0}
{"text": "c", "Toxic": 1, "rude": 1.0}
""",
}


@pytest.mark.parametrize("name", FLAGS)
def test_a_column_for_each_label(tmp_path, name):
    path = tmp_path / name
    path.write_text(FLAGS[name])
    columns = Columns(label_column="Toxic, rude")
    names = "Toxic", "rude"
    if name == "bare.tsv":
        columns = Columns(text_column="2", label_column="3-4")
        names = "column 3", "column 4"
    examples = list(MultiLabel().reader(path, columns, labelled=True))
    assert [label_set(example, ",") for example in examples] == [names[:1], (), names]


def test_what_is_no_flag(tmp_path):
    path = tmp_path / "a.csv"

    def rows(value, **columns):
        path.write_text(f"said,x,y,z\na,1,0,0\nb,1,{value},0\nc,1,1,1\n")
        return [e.row for e in MultiLabel().reader(path, Columns(**columns), labelled=True)]

    named = {"text_column": "said", "label_column": "x,y,z"}
    for value, found in (("maybe", "'y' is 'maybe'"), ("", "")):
        with refuses(InputError, "a.csv:3:", found, "1 and 0"):
            rows(value, **named)
    assert rows("", **named, skip_incomplete=True) == [2, 4]
    with refuses(InputError, "a.csv:1:", "'column 2' is 'x'", "--header yes"):
        rows("1", text_column="1", label_column="2-4")


def test_a_run_keeps_separator_and_threshold(settings, bertsmith, refused):
    result = finetune(Classify, replace(settings, steps=2, threshold=0.3))
    predictor = load(settings.out)
    assert predictor.definition == MultiLabel(
        ("bad", "fine", "good"), label_separator="|", threshold=0.3, pairs=False
    )
    (prediction,) = predictor(["a good film"])
    likely = prediction.probabilities
    assert prediction.labels == tuple(name for name in likely if likely[name] >= 0.3)
    assert "micro-F1" in str(result)
    assert evaluate(predictor, settings.eval) == result.evaluation
    # Other data may have another separator.
    other = settings.eval.with_name("other.csv")
    other.write_text(settings.eval.read_text().replace("|", ";"))
    words = ("evaluate", settings.out, "--data", other, *FP32, "--label-separator")
    found = json.loads(bertsmith(*words, ";", "--json"))
    assert found["micro_f1"] == pytest.approx(result.evaluation.micro_f1)
    assert "--label-separator: found ''; allowed is text, such as ','." in refused(*words, "")
    tagger = save_tiny(settings.out.with_name("one"), "classify", labels=("a", "b"))
    assert "--label-separator: found ';'" in refused(words[0], tagger, *words[2:], ";")


@pytest.mark.parametrize("name, value", [
    ("metric", "matthews_correlation"), ("threshold", 1.0), ("label_separator", ""),
])  # fmt: skip
def test_settings_that_do_not_fit(settings, name, value):
    with refuses(ConfigError, f"--{name.replace('_', '-')}:", str(value)):
        replace(settings, **{name: value})


def test_an_empty_separator_has_the_same_message_everywhere(settings, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\na,x\n")
    columns = ClassColumns(multi_label=True, label_separator="")
    for refuse in (
        lambda: replace(settings, label_separator=""),
        lambda: MultiLabel(("a",), label_separator=""),
        lambda: score_class_files(path, path, columns),
    ):
        with refuses(ConfigError, "--label-separator: found ''; allowed is text, such as ','."):
            refuse()


@pytest.mark.parametrize("name, value", [("threshold", 0.3), ("label_separator", "|")])
def test_options_of_several_labels_are_refused_for_one(settings, name, value):
    alone = {"multi_label": False, "threshold": 0.5, "label_separator": ","}
    with refuses(ConfigError, f"--{name.replace('_', '-')}:", "--multi-label"):
        replace(settings, **{**alone, name: value})

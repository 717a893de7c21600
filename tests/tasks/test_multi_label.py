"""Several labels for a text, or none: how they are written, learnt and told."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from samples import write_topics
from tiny_models import load_for_task, loss_of, save_tiny, tiny_tokenizer

from bertsmith.commands.predict import typed_examples
from bertsmith.data.examples import Columns, Example
from bertsmith.data.labels import label_set
from bertsmith.errors import ConfigError, InputError
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.finetuning.run import finetune
from bertsmith.tasks.auto import load
from bertsmith.tasks.example_objective import collate
from bertsmith.tasks.logits import sigmoid
from bertsmith.tasks.multi_label_classification import LabelsPrediction, MultiLabel
from bertsmith.tasks.text_classification import Classify, ClassifySettings

TEXTS = ["a good film", "the story was very dull and the film awful .", "lovely", "bad films"]


@pytest.fixture
def settings(tmp_path):
    return ClassifySettings(
        model=save_tiny(tmp_path / "model", "masked_lm"),
        train=write_topics(tmp_path / "a.csv", 31),
        eval=write_topics(tmp_path / "b.csv", 17, 1),
        out=tmp_path / "out",
        multi_label=True,
        label_separator="|",
        device="cpu",
        precision="fp32",
    )


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


@pytest.mark.parametrize(
    "value, found",
    [("2", "'y' is '2'"), ("maybe", "'y' is 'maybe'"), ("", "a column of labels is empty")],
)
def test_what_is_no_flag(tmp_path, value, found):
    path = tmp_path / "a.csv"
    path.write_text(f"text,x,y,z\na,1,0,0\nb,1,{value},0\nc,1,1,1\n")
    reader = MultiLabel().reader(path, Columns(label_column="x,y,z"), labelled=True)
    message = rf"a\.csv:3: {found}; allowed are 1 and 0"
    with pytest.raises(InputError, match=message):
        list(reader)
    lenient = Columns(label_column="2-4", skip_incomplete=True)
    reader = MultiLabel().reader(path, lenient, labelled=True)
    if value:
        with pytest.raises(InputError, match=message):
            list(reader)
    else:
        assert [example.row for example in reader] == [2, 4]
        assert reader.num_skipped == 1
    by_number = Columns(text_column="1", label_column="2-4")
    with pytest.raises(InputError, match=r"a\.csv:1: 'column 2' is 'x'; .*--header yes"):
        list(MultiLabel().reader(path, by_number, labelled=True))


def test_a_list_in_the_column_that_was_asked_for(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "t", "topics": ["x", "y,z"]}\n{"text": "t", "topics": "x,y"}\n')
    examples = list(MultiLabel().reader(path, Columns(label_column="topics"), labelled=True))
    assert [label_set(example, ",") for example in examples] == [("x", "y,z"), ("x", "y")]


def test_the_loss_is_torchs_and_its_mean_over_labels(settings):
    dataset = Classify.read(settings)
    assert dataset.task.labels == ("bad", "fine", "good")
    model, tokenizer = load_for_task(settings, dataset)
    encoded = dataset.task.encode(tokenizer, dataset.train, 37, labelled=True)
    term = loss_of(dataset.task, model.eval(), collate(encoded, range(31)))
    logits = torch.from_numpy(dataset.task.logits(model, encoded))
    flags = torch.tensor(
        [[name in label_set(e, "|") for name in dataset.task.labels] for e in dataset.train]
    ).float()
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, flags)
    assert term.sum.item() / term.count == pytest.approx(expected.item(), rel=1e-5)
    found = dataset.task.predict(model, encoded, dataset.train)
    right = [
        set(p.labels) == set(label_set(e, "|")) for p, e in zip(found, dataset.train, strict=True)
    ]
    assert term.correct == sum(right)


@pytest.mark.parametrize("logit", [-38.0, -36.0, 36.0, 38.0])
def test_the_held_out_loss_of_a_sure_mistake_is_finite_and_near_its_logit(logit):
    task = MultiLabel(("a",))
    accumulator = task.accumulator(Path("x"))
    probability = float(sigmoid(np.float32([logit]))[0])
    prediction = LabelsPrediction(("a",) if logit > 0 else (), {"a": probability})
    accumulator.add([Example("t", label="" if logit > 0 else "a")], [prediction])
    assert accumulator.figures()["loss"] == pytest.approx(abs(logit), abs=1)


@pytest.mark.parametrize("multi_label", [True, False])
def test_a_run_on_pairs_reads_typed_texts_two_and_two(settings, tmp_path, multi_label):
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("sentence1,sentence2,label\n" + "good,a film,x\nbad,the film,y\n" * 3)
    result = finetune(
        Classify,
        replace(settings, train=pairs, eval=pairs, steps=1, sample=None, multi_label=multi_label),
    )
    task = load(result.out).definition
    assert task.pairs
    assert typed_examples(task, ["a", "b"]) == [Example("a", "b", row=1)]
    with pytest.raises(InputError, match="found 1 text, but this model reads a text and its pair"):
        typed_examples(task, ["a"])


def test_a_run_keeps_separator_and_threshold(settings):
    result = finetune(Classify, replace(settings, steps=2, threshold=0.3))
    predictor = load(settings.out)
    assert predictor.definition == MultiLabel(
        ("bad", "fine", "good"), label_separator="|", threshold=0.3, pairs=False
    )
    for prediction in predictor(TEXTS):
        likely = prediction.probabilities
        assert prediction.labels == tuple(name for name in likely if likely[name] >= 0.3)
    assert "micro-F1" in str(result)
    assert evaluate(predictor, settings.eval) == result.evaluation


def test_a_folder_of_transformers_predicts_here(tmp_path):
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=20, hidden_size=24, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=36, max_position_embeddings=41, initializer_range=0.3,
        id2label={0: "z", 1: "a", 2: "m"}, label2id={"z": 0, "a": 1, "m": 2},
        problem_type="multi_label_classification",
    )  # fmt: skip
    theirs = BertForSequenceClassification(config).eval()
    theirs.save_pretrained(tmp_path)
    tiny_tokenizer().save(tmp_path)
    classifier = load(tmp_path, device="cpu", precision="fp32")
    for text in TEXTS:
        with torch.inference_mode():
            expected = theirs(torch.tensor([tiny_tokenizer().encode(text).ids])).logits.sigmoid()[0]
        found = classifier(text).probabilities
        assert list(found) == ["z", "a", "m"]
        assert list(found.values()) == pytest.approx(expected.tolist(), abs=1e-5)


def test_what_is_not_possible_is_refused(settings, tmp_path):
    with pytest.raises(ConfigError, match="--metric: found matthews_correlation; allowed are acc"):
        replace(settings, metric="matthews_correlation")
    with pytest.raises(ConfigError, match="--threshold: found 1"):
        replace(settings, threshold=1.0)
    with pytest.raises(ConfigError, match="--label-separator: found nothing"):
        replace(settings, label_separator="")
    settings.eval.write_text("text,label\na,good | odd\n")
    with pytest.raises(InputError, match=r"b\.csv:2: the label 'odd' is not one"):
        Classify.read(settings)
    settings.train.write_text("text,label\na,\nb,\n")
    with pytest.raises(InputError, match=r"a\.csv: no row has a label"):
        Classify.read(settings)


def test_outcomes_tell_the_share_of_right_decisions():
    task = MultiLabel(("a", "b", "c"), label_separator="|")
    model_says = {"a": 0.9, "b": 0.2, "c": 0.6}
    outcome = task.outcome(Example("t", None, "a|b", 1), LabelsPrediction(("a", "c"), model_says))
    assert (outcome.gold, outcome.predicted) == ("a| b", "a| c")
    assert outcome.score == pytest.approx(1 / 3)
    assert outcome.confidence == 0.6


def test_an_outcome_is_as_sure_as_its_least_likely_decision():
    task = MultiLabel(("a", "b"), threshold=0.9)
    prediction = LabelsPrediction(("a",), {"a": 0.95, "b": 0.8})
    outcome = task.outcome(Example("t", None, "a", 1), prediction)
    assert outcome.confidence == pytest.approx(0.2)  # for `b` being absent

"""Numbers for texts: the loss, the scores, and transformers' own regression folders."""

import csv
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch
from samples import write_scores
from tiny_models import load_for_task, loss_of, save_tiny, tiny_tokenizer

from bertsmith.commands.predict import typed_examples
from bertsmith.data.examples import Example
from bertsmith.errors import CheckpointError, InputError
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.finetuning.run import finetune
from bertsmith.tasks.auto import load
from bertsmith.tasks.example_objective import collate
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.regression import CLOSE, Regress, RegressSettings
from bertsmith.tasks.text_classification import Classify

TEXTS = ["a good film", "the story was very dull and the film awful .", "lovely", "bad films"]


@pytest.fixture
def settings(tmp_path):
    return RegressSettings(
        model=save_tiny(tmp_path / "model"),
        train=write_scores(tmp_path / "a.csv", 31),
        eval=write_scores(tmp_path / "b.csv", 17, 1),
        out=tmp_path / "out",
        device="cpu",
        precision="fp32",
    )


def test_the_loss_is_the_squared_error(settings):
    dataset = Regress.read(settings)
    model, tokenizer = load_for_task(settings, dataset)
    encoded = dataset.task.encode(tokenizer, dataset.train, 37, labelled=True)
    batch = collate(encoded, range(13))
    term = loss_of(dataset.task, model.eval(), batch)
    found = dataset.task.predict(model, encoded, dataset.train)[:13]
    errors = [p.value - float(e.label) for p, e in zip(found, dataset.train[:13], strict=True)]
    assert term.sum.item() == pytest.approx(np.square(errors).sum(), rel=1e-5)
    assert term.count == 13


def test_what_is_close_does_not_depend_on_the_batch(settings):
    dataset = Regress.read(settings)
    model, tokenizer = load_for_task(settings, dataset)
    encoded = dataset.task.encode(tokenizer, dataset.train, 37, labelled=True)
    batches = [collate(encoded, range(31)), *(collate(encoded, [i]) for i in range(31))]
    whole, *alone = [int(loss_of(dataset.task, model.eval(), batch).correct) for batch in batches]
    assert 0 < whole < 31
    assert sum(alone) == whole
    true = [float(example.label) for example in dataset.train]
    found = [p.value for p in dataset.task.predict(model, encoded, dataset.train)]
    assert whole == sum(np.abs(np.subtract(true, found)) <= CLOSE * np.std(true))


def test_a_new_head_begins_at_the_mean(settings):
    dataset = Regress.read(settings)
    model, _ = load_for_task(settings, dataset)
    mean = np.mean([float(example.label) for example in dataset.train])
    assert model.heads["regress"].dense.bias.item() == pytest.approx(mean)
    stored = save_tiny(settings.out, "regress")
    kept, _ = load_for_task(replace(settings, model=stored), dataset)
    assert kept.heads["regress"].dense.bias.item() == 0.0


def test_a_model_of_pairs_reads_typed_texts_two_and_two(settings):
    finetune(Regress, replace(settings, steps=1))
    task = load(settings.out).definition
    assert typed_examples(task, ["a", "b", "c", "d"]) == [
        Example("a", "b", row=1),
        Example("c", "d", row=2),
    ]
    with pytest.raises(InputError, match="found 3 texts, but this model reads a text and its pair"):
        typed_examples(task, ["a", "b", "c"])
    lone = settings.eval.with_name("lone.csv")
    lone.write_text("text,label\na,1\nb,2\n")
    with pytest.raises(InputError, match=r"lone\.csv: no column looks like the second text"):
        list(task.reader(lone, None, labelled=True))
    with pytest.raises(InputError, match=r"lone\.csv: no column looks like the second text"):
        Regress.read(replace(settings, eval=lone))


def test_figures_are_scipys(settings):
    regressor = load(save_tiny(settings.out, "regress"), device="cpu", precision="fp32")
    report = evaluate(regressor, settings.eval)
    with settings.eval.open() as file:
        rows = list(csv.DictReader(file))
    true = [float(row["label"]) for row in rows]
    predictions = regressor([(row["text"], row["text_pair"]) for row in rows])
    found = [prediction.value for prediction in predictions]
    assert report.pearson == pytest.approx(scipy.stats.pearsonr(true, found).statistic)
    assert report.spearman == pytest.approx(scipy.stats.spearmanr(true, found).statistic)
    assert report.rmse == pytest.approx(np.sqrt(np.mean(np.subtract(true, found) ** 2)))
    assert f"{report.spearman:.4f}" in str(report)


def test_a_regression_of_transformers_predicts_here(tmp_path):
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=20, hidden_size=24, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=36, max_position_embeddings=41, initializer_range=0.3, num_labels=1,
    )  # fmt: skip
    theirs = BertForSequenceClassification(config).eval()
    theirs.save_pretrained(tmp_path)
    tiny_tokenizer().save(tmp_path)
    regressor = load(tmp_path, device="cpu", precision="fp32")
    for text in TEXTS:
        ids = torch.tensor([tiny_tokenizer().encode(text).ids])
        with torch.inference_mode():
            expected = theirs(ids).logits.item()
        assert regressor(text).value == pytest.approx(expected, abs=1e-5)
    with pytest.raises(CheckpointError, match="problem_type is 'regression'"):
        Predictor.load(tmp_path, Classify)


@pytest.mark.parametrize(
    "content, parts",
    [
        ("text,label\na,1\nb,good\n", ["a.csv:3", "'good' is not a number"]),
        ("text,label\na,1\nb,nan\n", ["a.csv:3", "'nan' is not a number"]),
        ("text,label\na,1\nb,1e39\n", ["a.csv:3", "'1e39' is too large for fp32", "-3.4e+38 to"]),
        ("text,label\na,1\nb,1.0\n", ["a.csv", "in every row"]),
    ],
)
def test_what_is_no_number_is_refused(settings, tmp_path, content, parts):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(InputError) as caught:
        Regress.read(settings)
    assert all(part in str(caught.value) for part in parts)


def test_scores_of_ten_columns(data_dir):
    reader = Regress().reader(data_dir / "glue/STS-B/dev.tsv", None, labelled=True)
    first = next(iter(reader))
    assert first == Example(
        "A man with a hard hat is dancing.", "A man wearing a hard hat is dancing.", "5.000", 2
    )
    assert sum(1 for _ in reader) == 1500

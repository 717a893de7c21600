"""Fine-tuning to numbers: no unit of the labels matters, and a saved model has the user's."""

import csv
from dataclasses import replace

import numpy as np
import pytest
import torch
from samples import prepare
from stop_at import StopAt
from tiny_models import save_tiny

from bertsmith.data.examples import Example
from bertsmith.errors import Interrupted
from bertsmith.finetuning.run import finetune
from bertsmith.metrics.regression import NumberReport
from bertsmith.model.loading import load_model
from bertsmith.tasks.auto import load
from bertsmith.tasks.number_prediction import NumberPrediction
from bertsmith.tasks.regression import Regress
from bertsmith.training.journal import read_journal

FACTOR = 2.0**-17
PAIR = ("the film was good", "a fine story")


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    model = save_tiny(folder / "model", "masked_lm")
    return prepare("regress", folder, 40, 20, model=model, steps=6, threads=1)[1]


@pytest.fixture(scope="module")
def whole(settings):
    return finetune(Regress, settings)


def in_other_unit(file, folder):
    """Write a table with its labels multiplied by a power of two; gives its path."""
    with file.open(newline="") as opened:
        header, *rows = csv.reader(opened)
    column = header.index("label")
    for row in rows:
        row[column] = repr(float(row[column]) * FACTOR)
    out = folder / file.name
    with out.open("w", newline="") as opened:
        csv.writer(opened).writerows([header, *rows])
    return out


def evaluations(out):
    return [entry for entry in read_journal(out / "journal.jsonl") if "held_out_loss" in entry]


def test_the_unit_of_labels_changes_no_result(settings, whole, tmp_path):
    files = {name: tmp_path / name for name in ("train", "eval")}
    for name, folder in files.items():
        folder.mkdir()
        files[name] = in_other_unit(getattr(settings, name), folder)
    other = finetune(Regress, replace(settings, **files, out=tmp_path / "out"))
    assert other.evaluation.pearson == pytest.approx(whole.evaluation.pearson, abs=1e-6)
    assert other.evaluation.rmse == pytest.approx(FACTOR * whole.evaluation.rmse, rel=1e-5)
    # Training and held-out loss are in squared deviations of the labels, the rmse in their unit.
    for mine, their in zip(evaluations(other.out), evaluations(whole.out), strict=True):
        assert mine["held_out_loss"] == pytest.approx(their["held_out_loss"], rel=1e-5)
    first, second = (load(out)(*PAIR).value for out in (whole.out, other.out))
    assert second == pytest.approx(FACTOR * first, rel=1e-4)
    found, expected = (load_model(out).state_dict() for out in (other.out, whole.out))
    for name, weight in expected.items():
        scale = FACTOR if name.startswith("heads.regress.dense") else 1.0
        torch.testing.assert_close(found[name], scale * weight, rtol=1e-5, atol=scale * 1e-6)


def test_a_stopped_run_is_continued_bit_for_bit_from_a_folder_in_the_labels_unit(
    settings, whole, tmp_path
):
    stopped = replace(settings, out=tmp_path / "out")
    with pytest.raises(Interrupted):
        finetune(Regress, stopped, [StopAt(4)])
    (checkpoint,) = (stopped.out / "checkpoints").iterdir()
    bias = load_model(checkpoint).heads["regress"].dense.bias.item()
    with settings.train.open(newline="") as file:
        labels = [float(row["label"]) for row in csv.DictReader(file)]
    assert bias == pytest.approx(np.mean(labels), abs=np.std(labels))
    continued = finetune(Regress, replace(stopped, resume=True))
    assert continued.evaluation == whole.evaluation
    first, second = (load_model(out).state_dict() for out in (whole.out, stopped.out))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_fine_tuned_folder_is_trained_on_from_its_own_numbers(settings, whole, tmp_path):
    again = replace(settings, model=whole.out, steps=1, learning_rate=1e-30, dropout=0.0)
    continued = finetune(Regress, replace(again, out=tmp_path / "out"))
    assert load(continued.out)(*PAIR).value == pytest.approx(load(whole.out)(*PAIR).value, rel=1e-4)
    assert continued.evaluation.rmse == pytest.approx(whole.evaluation.rmse, rel=1e-4)


def test_rates_and_prices_are_shown_with_their_digits():
    example = Example("a text", label="0.00002")
    rate, price = NumberPrediction(0.0000314159), NumberPrediction(253421.873)
    assert rate.line(example) == "0.00003142\ta text"
    assert price.line(example).startswith("253421.9\t")
    outcome = Regress().outcome(example, rate)
    assert float(outcome.predicted) == pytest.approx(rate.value, rel=1e-3)
    report = NumberReport.of(np.array([0.00002, 0.00003]), np.array([0.00003, 0.00002]))
    assert "RMSE      0.00001000 " in str(report)

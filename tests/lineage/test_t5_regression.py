"""A T5 writes numbers; what it predicts is their mean by the probabilities of transformers."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
import transformers
from refusals import refuses
from stop_at import StopAt
from tiny_models import reviews, write_csv
from tiny_t5 import save_spelling

from bertsmith.data.examples import Example
from bertsmith.errors import CheckpointError, InputError, Interrupted
from bertsmith.finetuning.run import finetune
from bertsmith.model.weight_formats.safetensors_file import read_safetensors
from bertsmith.serving.served_model import ServedModel
from bertsmith.tasks.auto import load
from bertsmith.tasks.regression import Regress
from bertsmith.tasks.settings.regress import RegressSettings
from bertsmith.tasks.text_to_text_regression import TextToTextRegress


def write_ratings(path, count, seed=0):
    """Write pairs of texts with a number near 4 or near 1, which one word decides."""
    rows = [
        (example.text, "the film", f"{(4.13 if example.label == 'pos' else 1.06) + row % 3 / 9:g}")
        for row, example in enumerate(reviews(count, seed))
    ]
    return write_csv(path, ("text", "pair", "label"), *rows)


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("regress")
    return RegressSettings(
        model=save_spelling(folder / "lm"), train=write_ratings(folder / "train.csv", 80),
        eval=write_ratings(folder / "eval.csv", 30, seed=1), out=folder / "out", steps=120,
        max_length=61, learning_rate=3e-3, seed=2, threads=1, device="cpu", precision="fp32",
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained(settings):
    return finetune(Regress, settings)


def test_it_learns_and_every_command_opens_the_folder(trained, settings, bertsmith):
    assert trained.evaluation.pearson > 0.8
    line = ("--device", "cpu", "--precision", "fp32", "--json")
    predicted = json.loads(bertsmith("predict", trained.out, "a lovely film", "the film", *line))
    assert 3 < predicted["predictions"][0]["value"] < 4.5
    scores = json.loads(bertsmith("evaluate", trained.out, "--data", settings.eval, *line))
    assert scores["pearson"] == pytest.approx(trained.evaluation.pearson, rel=1e-6)
    source = "sentence1: a lovely film sentence2: the film"
    written = bertsmith("translate", trained.out, source, "--device", "cpu").replace(" ", "")
    assert written.strip() in load(trained.out).definition.numbers
    served = ServedModel.load("a", trained.out, device="cpu", precision="fp32", max_length=None)
    assert served.info.is_regression


def test_the_number_is_the_mean_by_the_probabilities_of_transformers(trained):
    regressor = load(trained.out, device="cpu", precision="fp32")
    numbers = regressor.definition.numbers
    assert (numbers[0], numbers[1], numbers[-1], len(numbers)) == ("1.0", "1.2", "4.4", 18)
    model = transformers.T5ForConditionalGeneration.from_pretrained(trained.out)
    tokenizer = regressor.tokenizer
    for text, pair in (("a good film", "the story"), ("", "dull .")):
        words = f"sentence1: {text} sentence2: {pair}"
        source = torch.tensor([[*tokenizer.encode_ids(words), tokenizer.sep_id]])
        sums = []
        for number in numbers:
            target = torch.tensor([[*tokenizer.encode_ids(number), tokenizer.sep_id]])
            with torch.no_grad():
                sums.append(-model(input_ids=source, labels=target).loss * target.shape[1])
        likely = torch.stack(sums).softmax(-1)
        expected = float(likely @ torch.tensor(list(map(float, numbers))))
        assert regressor(text, pair).value == pytest.approx(expected, abs=1e-4)


def test_a_user_who_names_the_task_gets_the_same_predictor(trained):
    named = load(trained.out, task="regress", device="cpu", precision="fp32")
    value = load(trained.out, device="cpu", precision="fp32")("a fine film", "the film").value
    assert named("a fine film", "the film").value == value


@pytest.mark.parametrize("numbers", [None, ["1.0", "many"], [1.0, 2.0], ["1.0"]])
def test_a_folder_without_the_numbers_that_it_writes_is_refused(trained, tmp_path, numbers):
    folder = shutil.copytree(trained.out, tmp_path / "copy")
    (folder / "SHA256SUMS").unlink()
    config = json.loads((folder / "config.json").read_text())
    config["bertsmith"]["numbers"] = numbers
    (folder / "config.json").write_text(json.dumps(config))
    with refuses(CheckpointError, "config.json", "'numbers'"):
        load(folder, device="cpu")


def test_a_number_becomes_the_nearest_multiple_of_a_fifth(trained):
    task = load(trained.out).definition
    labels = ("2.57", "1", "-7", "4.31", "9")
    examples = [Example("a", "b", label, row) for row, label in enumerate(labels)]
    written = [task.numbers[index] for index in task.targets(examples)]
    assert written == ["2.6", "1.0", "1.0", "4.4", "4.4"]


def test_zero_is_written_without_a_sign(tmp_path):
    examples = [Example("a", "b", label) for label in ("-0.04", "0.4")]
    task = TextToTextRegress().with_numbers(examples, tmp_path)
    assert task.numbers == ("0.0", "0.2", "0.4")


def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(settings, tmp_path):
    whole, stopped = (replace(settings, steps=5, out=tmp_path / name) for name in ("a", "b"))
    finetune(Regress, whole)
    with pytest.raises(Interrupted):
        finetune(Regress, stopped, [StopAt(2)])
    finetune(Regress, replace(stopped, resume=True))
    ours, expected = (read_safetensors(each.out / "model.safetensors") for each in (stopped, whole))
    assert all(torch.equal(value, expected[name]) for name, value in ours.items())


def test_numbers_that_are_too_many_or_alike_are_refused(settings, tmp_path):
    for labels, part in ((("1", "1000"), "1 to 1000"), (("1.01", "1.02"), "1 to 1")):
        path = write_csv(tmp_path / "a.csv", ("text", "label"), *(("a film", x) for x in labels))
        with refuses(InputError, "a.csv", part, "0.2"):
            finetune(Regress, replace(settings, train=path, eval=path, out=tmp_path / "out"))

"""`finetune classify --seeds 3 --average`: several models as one, by their mean probabilities."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from refusals import refuses
from tiny_models import BAD, GOOD, save_tiny, write_csv, write_reviews

from bertsmith.compression.compress import compress
from bertsmith.compression.settings import CompressSettings, LayerSettings
from bertsmith.distillation.run import distill
from bertsmith.distillation.settings import DistillSettings
from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.finetuning.run import finetune
from bertsmith.finetuning.series import finetune_repeatedly
from bertsmith.model.head_names import MEMBERS_FOLDER
from bertsmith.serving.served_model import ServedModel
from bertsmith.system.checksums import SUMS_FILE
from bertsmith.tasks.auto import load
from bertsmith.tasks.averaged_classification import AveragedClassify, AveragedMultiLabel
from bertsmith.tasks.loading import load_predictor
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.text_classification import Classify

TEXTS = ["a good film", "dull", "the film was very bad . " * 12, "a", ""]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("average")
    return ClassifySettings(
        model=save_tiny(folder / "model", "masked_lm"),
        train=write_reviews(folder / "train.csv", 40),
        eval=write_reviews(folder / "eval.csv", 30, seed=1),
        out=folder / "out",
        seeds=3,
        average=True,
        steps=6,
        learning_rate=5e-3,
        precision="fp32",
        threads=1,
    )


@pytest.fixture(scope="module")
def whole(base):
    return finetune_repeatedly(Classify, base)


@pytest.fixture
def copied(base, whole, tmp_path):
    """A copy of the averaged model's folder, which a test may change."""
    return shutil.copytree(base.out, tmp_path / "copy")


def test_its_probabilities_are_the_mean_of_those_of_three_runs(base, whole, tmp_path):
    runs = []
    for seed in range(3):
        alone = replace(base.for_one_run(), seed=seed, out=tmp_path / str(seed))
        finetune(Classify, alone)
        runs.append(load(alone.out, device="cpu", precision="fp32").probabilities(TEXTS))
    predictor = load(base.out, device="cpu", precision="fp32")
    assert isinstance(predictor.definition, AveragedClassify)
    assert predictor(TEXTS[2]).num_windows > 1
    mean = np.mean(runs, axis=0)
    np.testing.assert_allclose(predictor.probabilities(TEXTS), mean, atol=1e-6)
    assert not np.allclose(runs[0], mean, atol=1e-3)
    for text, row in zip(TEXTS, mean, strict=True):
        np.testing.assert_allclose(predictor.probabilities([text])[0], row, atol=1e-6)


def test_every_reader_of_folders_opens_it(base, whole, bertsmith):
    score = whole.average["accuracy"]
    evaluated = bertsmith(
        "evaluate", base.out, "--data", base.eval, "--precision", "fp32", "--json"
    )
    assert json.loads(evaluated)["accuracy"] == score
    predictor = load(base.out, device="cpu", precision="fp32")
    assert predictor.evaluate(str(base.eval)).accuracy == score
    assert load(base.out, task="classify", device="cpu").definition == predictor.definition
    assert isinstance(load_predictor(base.out, device="cpu").definition, AveragedClassify)
    served = ServedModel.load("m", base.out, device="cpu", precision="fp32", max_length=None)
    encoded = predictor.encode_examples([predictor.example({"text": TEXTS[0]})])
    outputs = served.definitions["predict"].compute_outputs(served.loaded.model, encoded)
    assert np.array_equal(outputs, predictor.definition.compute_outputs(predictor.model, encoded))


def test_a_saved_copy_is_whole_and_another_run_leaves_no_models_behind(copied, base, tmp_path):
    predictor = load(copied, device="cpu", precision="fp32")
    again = load(predictor.save(tmp_path / "saved"), device="cpu", precision="fp32")
    assert np.array_equal(again.probabilities(TEXTS), predictor.probabilities(TEXTS))
    finetune(Classify, replace(base.for_one_run(), out=copied, overwrite=True))
    assert not (copied / MEMBERS_FOLDER).exists()
    assert type(load(copied, device="cpu").definition) is Classify


def test_the_report_names_the_score_of_the_average_and_its_cost(base, whole):
    text = str(whole)
    assert "average" in text and "predictions take 3 times as long" in text
    stored = json.loads((base.out / "repeats.json").read_text())
    assert stored["average"]["accuracy"] == whole.average["accuracy"]
    card = (base.out / "README.md").read_text()
    assert "the mean of the probabilities of all 3 models" in card
    assert sorted(path.name for path in (base.out / MEMBERS_FOLDER).iterdir()) == sorted(
        {"seed-0", "seed-1", "seed-2"} - {whole.best}
    )


def test_a_text_may_have_several_labels(base, tmp_path):
    rows = [(f"{word} film", "good") for word in GOOD] + [(f"{word} film", "bad") for word in BAD]
    rows += [(f"{good} {bad} film", "good,bad") for good, bad in zip(GOOD, BAD, strict=True)]
    train = write_csv(tmp_path / "several.csv", ("text", "label"), *rows)
    out = tmp_path / "out"
    several = replace(base, train=train, eval=train, out=out, multi_label=True, seeds=2)
    finetune_repeatedly(Classify, several)
    predictor = load(out, device="cpu", precision="fp32")
    assert isinstance(predictor.definition, AveragedMultiLabel)
    runs = []
    for seed in range(2):
        alone = replace(several.for_one_run(), seed=seed, out=tmp_path / str(seed))
        finetune(Classify, alone)
        runs.append(load(alone.out, device="cpu", precision="fp32").probabilities(TEXTS))
    np.testing.assert_allclose(predictor.probabilities(TEXTS), np.mean(runs, axis=0), atol=1e-6)


def test_the_metric_may_be_the_accuracy_of_several_labels(base, tmp_path):
    """Reports call this accuracy subset_accuracy."""
    rows = [(f"{word} film", label) for word in GOOD for label in ("good", "good,fine")]
    train = write_csv(tmp_path / "several.csv", ("text", "label"), *rows)
    several = replace(
        base, train=train, eval=train, out=tmp_path / "out", multi_label=True, seeds=2, steps=1,
        metric="accuracy",
    )  # fmt: skip
    result = finetune_repeatedly(Classify, several)
    assert result.average["accuracy"] == result.average["subset_accuracy"]
    assert "average  accuracy" in " ".join(str(result).split()).replace("average ", "average  ")


def test_samples_with_other_labels_are_refused_before_anything_is_trained(base, tmp_path):
    """With several labels per text, a small sample may lack one; each seed draws another sample."""
    labels = ("good", "bad", "good,bad", "film", "story", "very")
    rows = [(f"a {label} film", label) for label in labels]
    several = replace(
        base,
        train=write_csv(tmp_path / "train.csv", ("text", "label"), *rows),
        eval=write_csv(tmp_path / "eval.csv", ("text", "label"), ("a good film", "good")),
        multi_label=True,
        sample=5,
        seed=2,
        out=tmp_path / "several",
    )
    with refuses(ConfigError, "--sample 5", "seed-4", "'film'", "--average"):
        finetune_repeatedly(Classify, several)
    assert not several.out.exists()


def test_all_models_move_to_another_device(copied):
    predictor = load(copied, device="cpu", precision="fp32")
    before = predictor.definition.others
    expected = predictor.probabilities(TEXTS)
    predictor.to("cpu")
    after = predictor.definition.others
    assert len(after) == len(before) == 2
    assert not any(model in before for model in after)
    assert np.array_equal(predictor.probabilities(TEXTS), expected)


def test_a_series_that_was_stopped_at_its_end_is_resumed(base, whole, copied):
    facts = json.loads((copied / "run.json").read_text())
    del facts["summary"]
    (copied / "run.json").write_text(json.dumps(facts))
    result = finetune_repeatedly(Classify, replace(base, out=copied, resume=True))
    assert result.average == whole.average


def test_a_folder_that_lacks_a_model_is_refused(copied):
    missing = next((copied / MEMBERS_FOLDER).iterdir())
    shutil.rmtree(missing)
    with refuses(CheckpointError, missing.name, worded=False):
        load(copied, device="cpu")


def test_a_folder_that_lacks_its_models_does_not_ask_the_hub(copied, monkeypatch):
    shutil.rmtree(copied / MEMBERS_FOLDER)
    monkeypatch.chdir(copied)
    with refuses(CheckpointError, str(copied / MEMBERS_FOLDER), worded=False):
        load(".", device="cpu")


def test_the_logits_of_sure_labels_are_finite_and_give_their_probabilities():
    probabilities = np.array([0.0, 0.25, 1.0])
    for kind in (AveragedClassify, AveragedMultiLabel):
        assert np.isfinite(kind.logits_of(probabilities)).all()
    logits = AveragedMultiLabel.logits_of(probabilities)
    np.testing.assert_allclose(1 / (1 + np.exp(-logits)), probabilities, rtol=0, atol=1e-15)


@pytest.mark.parametrize("names", ["seed-1", [1], ["../out"], [".."], ["a/b"]])
def test_names_that_leave_the_folder_are_refused(copied, names):
    config = json.loads((copied / "config.json").read_text())
    config["bertsmith"]["members"] = names
    (copied / "config.json").write_text(json.dumps(config))
    (copied / SUMS_FILE).unlink()
    with refuses(CheckpointError, "config.json: members is"):
        load(copied, device="cpu")


def test_what_needs_one_model_is_refused(base, whole, tmp_path):
    with refuses(ConfigError, "--average", "--seeds 3"):
        replace(base, seeds=None)
    with refuses(ConfigError, "--head contrastive", "--seeds, --average"):
        replace(base, head="contrastive")
    student = DistillSettings(teacher=base.out, student=base.model)
    with refuses(CheckpointError, "averages several models"):
        distill(student, Classify, replace(base.for_one_run(), out=tmp_path / "student"))
    fewer = CompressSettings(
        model=base.out, out=tmp_path / "small", layers=LayerSettings(num_layers=1)
    )
    with refuses(CheckpointError, "several models"):
        compress(fewer)

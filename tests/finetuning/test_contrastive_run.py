"""`finetune classify --head contrastive`: training on pairs of texts, then a linear head."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from folders import contents
from refusals import refuses
from review_settings import settings_on_reviews
from tiny_models import BAD, GOOD, save_tiny_of, write_csv

from bertsmith import TextClassifier
from bertsmith.errors import ConfigError
from bertsmith.finetuning.contrastive_run import finetune_contrastive
from bertsmith.finetuning.resolve import resolve_contrastive
from bertsmith.model.head_names import LINEAR_HEAD_FILE
from bertsmith.model.loading import load_model
from bertsmith.tasks.auto import load
from bertsmith.tasks.linear_classification import LinearClassify, LinearMultiLabel
from bertsmith.tasks.text_classification import Classify


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Settings of a run on 60 reviews, with the model and both files."""
    folder = tmp_path_factory.mktemp("contrastive")
    return settings_on_reviews(folder, 60, head="contrastive", steps=150, learning_rate=3e-3)


@pytest.fixture
def settings(base, tmp_path):
    """Settings of a shorter run, in a folder of its own."""
    return replace(base, out=tmp_path / "out", steps=60)


@pytest.fixture(scope="module")
def whole(base):
    return finetune_contrastive(Classify, base)


@pytest.fixture(scope="module")
def brief(base, tmp_path_factory):
    """Settings of a run of a few steps, which is done, to compare other files with its own."""
    settings = replace(base, out=tmp_path_factory.mktemp("brief") / "out", steps=5)
    finetune_contrastive(Classify, settings)
    return settings


def test_it_learns_and_its_scores_are_those_of_the_saved_folder(base, whole):
    assert whole.evaluation.accuracy > 0.9
    assert whole.training.steps == 150 and whole.num_train == 60
    predictor = load(base.out, device="cpu", precision="fp32")
    assert isinstance(predictor.definition, LinearClassify)
    assert predictor.labels == ("neg", "pos")
    assert predictor.evaluate(str(base.eval)).accuracy == whole.evaluation.accuracy
    assert predictor("a good film").label == "pos"
    assert predictor("dull and awful").label == "neg"
    stored = json.loads((base.out / "run.json").read_text())
    assert stored["result"]["evaluation"]["accuracy"] == whole.evaluation.accuracy
    card = (base.out / "README.md").read_text()
    assert "library_name: bertsmith" in card and "optimistic" not in card
    assert "on pairs of examples with 2 labels, with a linear head" in card
    assert "trained the encoder on pairs of texts: 150 steps" in str(whole)


def test_texts_with_the_same_label_are_nearer_than_before(base, whole):
    texts = ["a good film", "a fine story", "a bad film", "an awful story"]

    def lead(folder):
        vectors = load(folder, task="vectors", device="cpu", precision="fp32").encode(texts)
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines = unit @ unit.T
        return cosines[0, 1] + cosines[2, 3] - cosines[0, 2] - cosines[1, 3]

    assert lead(base.out) > lead(base.model) + 0.2


def test_the_encoder_is_trained_and_transformers_opens_it(base, whole):
    transformers = pytest.importorskip("transformers")
    after = load_model(base.out)
    before = load_model(base.model, heads=()).state_dict()
    words = after.embeddings.word.weight
    assert not torch.equal(words, before["embeddings.word.weight"])
    theirs = transformers.AutoModel.from_pretrained(base.out)
    assert torch.equal(theirs.get_input_embeddings().weight, words)


def test_eval_examples_have_no_part_in_training(brief, tmp_path):
    without = replace(brief, out=tmp_path / "out", eval=Path())
    finetune_contrastive(Classify, without)
    for name in (LINEAR_HEAD_FILE, "model.safetensors"):
        assert (without.out / name).read_bytes() == (brief.out / name).read_bytes()


def test_a_run_that_was_stopped_before_its_head_is_resumed_to_the_same_files(brief, tmp_path):
    settings = replace(brief, out=tmp_path / "out")
    whole = finetune_contrastive(Classify, settings)
    (settings.out / LINEAR_HEAD_FILE).unlink()
    facts = json.loads((settings.out / "run.json").read_text())
    del facts["result"]
    (settings.out / "run.json").write_text(json.dumps(facts))
    result = finetune_contrastive(Classify, replace(settings, resume=True))
    assert result.evaluation.accuracy == whole.evaluation.accuracy
    for name in (LINEAR_HEAD_FILE, "model.safetensors"):
        assert (settings.out / name).read_bytes() == (brief.out / name).read_bytes()


def test_a_text_may_have_several_labels(settings, tmp_path):
    rows = [(f"{word} film", "good") for word in GOOD] + [(f"{word} film", "bad") for word in BAD]
    rows += [(f"{good} {bad} film", "good,bad") for good, bad in zip(GOOD, BAD, strict=True)]
    train = write_csv(tmp_path / "several.csv", ("text", "label"), *rows)
    several = replace(settings, train=train, eval=train, multi_label=True)
    result = finetune_contrastive(Classify, several)
    assert result.evaluation.micro_f1 > 0.9
    predictor = load(settings.out, device="cpu", precision="fp32")
    assert isinstance(predictor.definition, LinearMultiLabel)
    assert set(predictor("good bad film").labels) == {"good", "bad"}


def test_pairs_are_read_as_pairs(settings, tmp_path):
    rows = [(f"{word} film", "the story", "pos") for word in GOOD]
    rows += [(f"{word} film", "the story", "neg") for word in BAD]
    pairs = write_csv(tmp_path / "pairs.csv", ("text", "text_pair", "label"), *rows)
    finetune_contrastive(Classify, replace(settings, train=pairs, eval=Path()))
    predictor = load(settings.out, device="cpu")
    assert predictor.predict([("good film", "the story")])[0].label == "pos"


@pytest.mark.parametrize("family", ["roberta", "albert", "electra", "modernbert"])
def test_every_family_learns_from_pairs(settings, tmp_path, family):
    model = save_tiny_of(tmp_path / "m", family)
    result = finetune_contrastive(Classify, replace(settings, model=model, eval=settings.train))
    assert result.evaluation.accuracy > 0.9
    predictor = load(settings.out, device="cpu", precision="fp32")
    assert predictor.evaluate(str(settings.train)).accuracy == result.evaluation.accuracy


def test_a_long_text_keeps_some_of_its_windows_in_training_and_all_in_prediction(
    settings, tmp_path
):
    long = " ".join(["a good film"] * 1000)
    rows = [(long, "pos"), ("bad film", "neg"), ("good", "pos"), ("dull", "neg")]
    train = write_csv(tmp_path / "long.csv", ("text", "label"), *rows)
    result = finetune_contrastive(Classify, replace(settings, train=train, eval=Path(), steps=3))
    assert result.num_train_windowed == 1 and result.num_train_truncated == 1
    assert load(settings.out, device="cpu")(long).num_windows > 1


def test_the_estimator_learns_from_pairs_of_its_examples(base, tmp_path):
    texts = ["a good film", "fine story", "lovely", "bad film", "dull story", "awful"]
    classifier = TextClassifier(base.model, head="contrastive", precision="fp32", verbose=0)
    classifier.fit(texts, [1, 1, 1, 0, 0, 0], eval=None)
    assert classifier.result_.training.steps == 50
    assert classifier.predict(["a good film", "awful"]).tolist() == [1, 0]
    # A loaded estimator leaves open what was left open, so that `fit` decides for its own examples.
    loaded = TextClassifier.load(classifier.save(tmp_path / "saved"))
    assert (loaded.head, loaded.steps, loaded.batch_size) == ("contrastive", None, 16)


def test_steps_of_an_epoch_have_equally_many_texts(base):
    def resolve(count, **changes):
        resolved = resolve_contrastive(replace(base, **{"steps": None, **changes}), count)
        return resolved.batch_size, resolved.steps

    sizes = {2: 2, 3: 3, 5: 5, 16: 16, 17: 9, 33: 11, 64: 16, 65: 13, 257: 15}
    assert {count: resolve(count)[0] for count in sizes} == sizes
    assert all(count % resolve(count)[0] != 1 for count in range(2, 600))
    assert resolve(16)[1] == resolve(200)[1] - 2 == 50  # four epochs of 13 steps are more
    assert resolve(200, steps=7) == (16, 7)
    assert resolve(200, epochs=2.0) == (16, None)


def test_options_of_a_loss_on_logits_are_refused(base, whole):
    with refuses(ConfigError, "--head contrastive", "--focal-gamma", "--patience"):
        replace(base, focal_gamma=2.0, patience=2)
    with refuses(ConfigError, "--batch-size", "2 or more"):
        replace(base, batch_size=1)
    with refuses(ConfigError, "compares texts", "two or more"):
        resolve_contrastive(base, 1)
    before = contents(base.out)
    with refuses(ConfigError, "holds an earlier run"):
        finetune_contrastive(Classify, base)
    assert contents(base.out) == before

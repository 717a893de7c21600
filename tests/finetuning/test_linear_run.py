"""`finetune classify --head linear`: what it fits, what it saves, and what it refuses."""

import errno
import json
import os
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
from bertsmith.compression.compress import compress
from bertsmith.compression.settings import CompressSettings, LayerSettings
from bertsmith.distillation.run import distill
from bertsmith.distillation.settings import DistillSettings
from bertsmith.errors import CheckpointError, ConfigError, InputError
from bertsmith.finetuning.heads import training_function_for
from bertsmith.finetuning.linear_fit import FEW_STRENGTHS
from bertsmith.finetuning.linear_run import finetune_linear
from bertsmith.finetuning.run import finetune
from bertsmith.model.head_names import LINEAR_HEAD_FILE
from bertsmith.model.loading import load_model
from bertsmith.model.weight_formats.safetensors_file import read_safetensors, write_safetensors
from bertsmith.system.progress import showing_progress
from bertsmith.tasks.auto import load
from bertsmith.tasks.linear_classification import (
    LinearClassify,
    LinearMultiLabel,
    with_linear_head,
)
from bertsmith.tasks.linear_head import LinearHead
from bertsmith.tasks.loading import load_predictor
from bertsmith.tasks.multi_label_classification import MultiLabel
from bertsmith.tasks.text_classification import Classify
from bertsmith.tasks.token_ngrams import TokenNgrams


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Settings of a run on reviews, with the model and both files."""
    folder = tmp_path_factory.mktemp("linear")
    return settings_on_reviews(folder, 300, head="linear")


@pytest.fixture
def settings(base, tmp_path):
    return replace(base, out=tmp_path / "out")


@pytest.fixture(scope="module")
def whole(base):
    return finetune_linear(Classify, base)


def write_several(path: Path, count: int) -> Path:
    """Write texts with the labels good, bad, both or none, by their words."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(count):
        flags = rng.random(2) < 0.5
        words = ["film", *(rng.choice(GOOD) for _ in range(int(flags[0])))]
        words += [rng.choice(BAD) for _ in range(int(flags[1]))]
        labels = [name for name, flag in zip(("good", "bad"), flags, strict=True) if flag]
        rows.append((" ".join(rng.permutation(words)), ",".join(labels)))
    return write_csv(path, ("text", "label"), *rows)


def test_the_head_learns_and_its_scores_are_those_of_the_saved_folder(base, whole):
    assert whole.evaluation.accuracy > 0.9
    assert whole.cross_validation.accuracy > 0.9 and whole.cross_validation.num_folds == 5
    assert "cross-validation with 5 folds chose the penalty (C = " in str(whole)
    predictor = load(base.out, device="cpu", precision="fp32")
    assert isinstance(predictor.definition, LinearClassify)
    assert predictor.labels == ("neg", "pos")
    assert predictor.evaluate(str(base.eval)).accuracy == whole.evaluation.accuracy
    assert predictor("a good film").label == "pos"
    assert predictor("dull and awful").label == "neg"
    assert load_predictor(base.out, device="cpu").definition == predictor.definition
    assert isinstance(load(base.out, task="classify", device="cpu").definition, LinearClassify)
    assert load(base.out, task="vectors").encode(["a good film"]).shape == (1, 24)
    run = json.loads((base.out / "run.json").read_text())
    assert run["result"]["cross_validation"]["c"] == whole.cross_validation.c
    assert {each.key for each in whole.baselines} == {"majority"}
    card = (base.out / "README.md").read_text()
    assert "pipeline_tag: text-classification" in card and "library_name: bertsmith" in card
    assert "linear head" in card and "optimistic" not in card


def test_the_encoder_is_that_of_the_model_and_transformers_opens_it(base, whole):
    transformers = pytest.importorskip("transformers")
    before, after = load_model(base.model, heads=()), load_model(base.out)
    for name, weight in after.state_dict().items():
        assert torch.equal(weight, before.state_dict()[name]), name
    theirs = transformers.AutoModel.from_pretrained(base.out)
    words = theirs.get_input_embeddings().weight
    assert torch.equal(words, before.embeddings.word.weight)


def test_a_text_has_the_same_bytes_alone_and_among_others_and_by_one_row_or_several(base, whole):
    predictor = load(base.out, device="cpu", precision="fp32")
    texts = ["a good film", "dull", "the film was very bad . " * 12, "a", ""]
    together = predictor.probabilities(texts)
    assert predictor(texts[2]).num_windows > 1
    for text, row in zip(texts, together, strict=True):
        np.testing.assert_allclose(predictor.probabilities([text])[0], row, rtol=0, atol=1e-6)


def test_probabilities_are_those_of_the_features_written_out(base, whole):
    """Standardized vectors and TF-IDF, times the weights in the file."""
    tensors = {
        name: tensor.numpy().astype(np.float64)
        for name, tensor in read_safetensors(base.out / LINEAR_HEAD_FILE).items()
    }
    predictor = load(base.out, device="cpu", precision="fp32")
    texts = ["a good film", "dull and awful ."]
    counted = predictor.definition.linear.ngrams.transform(
        predictor.encode_examples([predictor.example({"text": text}) for text in texts])
    )
    logits = predictor.encode(texts) @ tensors["vector_weights"] + tensors["bias"]
    for row in range(2):
        entries = slice(counted.starts[row], counted.starts[row + 1])
        logits[row] += counted.values[entries] @ tensors["ngram_weights"][counted.columns[entries]]
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(predictor.probabilities(texts), shares, atol=1e-5)


def test_without_eval_examples_the_scores_are_those_of_cross_validation(settings):
    result = finetune_linear(Classify, replace(settings, eval=Path()))
    assert result.evaluation is None and result.baselines == ()
    assert "cross-validation with 5 folds" in str(result)
    assert load(settings.out, device="cpu")("a good film").label == "pos"


def test_counted_tokens_alone_need_no_vectors(settings, base):
    result = finetune_linear(Classify, replace(settings, head="counts"))
    assert result.evaluation.accuracy > 0.9
    tensors = read_safetensors(settings.out / LINEAR_HEAD_FILE)
    assert not tensors["vector_weights"].any() and tensors["ngram_weights"].any()
    assert "token counts alone" in str(result)
    card = (settings.out / "README.md").read_text()
    assert "a linear head that was fitted to token counts, to sort texts" in card
    predictor = load(settings.out, device="cpu", precision="fp32")
    assert predictor("a good film").label == "pos"
    assert predictor("a good film . " * 20).num_windows > 1


def test_two_runs_are_equal(settings, base, whole):
    finetune_linear(Classify, settings)
    for name in (LINEAR_HEAD_FILE, "model.safetensors"):
        assert (settings.out / name).read_bytes() == (base.out / name).read_bytes()


def test_a_text_may_have_several_labels(settings, tmp_path):
    files = [write_several(tmp_path / f"{name}.csv", 80) for name in ("train", "eval")]
    several = replace(settings, train=files[0], eval=files[1], multi_label=True)
    result = finetune_linear(Classify, several)
    assert result.evaluation.micro_f1 > 0.95
    predictor = load(settings.out, device="cpu", precision="fp32")
    assert isinstance(predictor.definition, LinearMultiLabel)
    assert isinstance(load(settings.out, task="multi_label").definition, LinearMultiLabel)
    assert set(predictor("good bad film").labels) == {"good", "bad"}
    assert predictor("film").labels == ()


def test_scores_of_each_label_are_details_below_the_baselines(whole):
    assert "label  precision" not in str(whole) and "baseline  always" in str(whole)
    with showing_progress(details=True):
        scores, details = str(whole).split("label  precision")
    assert "baseline  always" in scores and "<- predicted" in details


@pytest.mark.parametrize("head", ["linear", "contrastive"])
def test_weights_of_classes_make_a_rare_label_likelier(settings, tmp_path, head):
    rows = [(f"{word} film", "neg") for word in BAD * 4] + [("film story", "pos")] * 3
    rows += [("film story", "neg")] * 6
    train = write_csv(tmp_path / "train.csv", ("text", "label"), *rows)
    likely = {}
    for weights in ((), ("balanced",), ("pos=20", "neg=1")):
        out = tmp_path / "-".join(("out", *weights))
        of_head = replace(
            settings, train=train, eval=Path(), out=out, head=head, class_weights=weights
        )
        training_function_for(of_head)(Classify, of_head)
        predictor = load(out, device="cpu", precision="fp32")
        likely[weights] = predictor("film story").probabilities["pos"]
    assert likely[()] < 0.5 < likely["balanced",] and likely["pos=20", "neg=1"] > likely[()]


def test_texts_that_contradict_and_rare_labels_are_told(settings, tmp_path):
    rows = [("good film", "a"), ("good film", "b"), ("dull film", "b"), ("awful", "c")]
    train = write_csv(tmp_path / "train.csv", ("text", "label"), *rows)
    result = finetune_linear(Classify, replace(settings, train=train, eval=Path()))
    text = str(result)
    assert "1 text has different labels in different rows, such as 'good film' ('a', 'b')" in text
    assert "2 of 3 labels are seen once ('a', 'c')" in text


def test_pairs_are_read_as_pairs(settings, tmp_path):
    rows = [(f"{word} film", "the story", "pos") for word in GOOD]
    rows += [(f"{word} film", "the story", "neg") for word in BAD]
    pairs = write_csv(tmp_path / "pairs.csv", ("text", "text_pair", "label"), *rows * 3)
    result = finetune_linear(Classify, replace(settings, train=pairs, eval=Path()))
    assert f"a linear head to {3 * len(rows)} pairs with 2 labels" in str(result)
    predictor = load(settings.out, device="cpu")
    assert predictor.predict([("good film", "the story")])[0].label == "pos"
    assert f"of the {3 * len(rows)} pairs with" in str(predictor.evaluate(str(pairs)))


@pytest.mark.parametrize("family", ["roberta", "albert", "electra", "modernbert"])
def test_every_family_has_a_linear_head(settings, tmp_path, family):
    model = save_tiny_of(tmp_path / "m", family)
    result = finetune_linear(Classify, replace(settings, model=model))
    assert result.evaluation.accuracy > 0.8
    predictor = load(settings.out, device="cpu", precision="fp32")
    assert predictor.evaluate(str(settings.eval)).accuracy == result.evaluation.accuracy


def test_very_few_texts_have_fewer_folds_and_two_equal_ones_none(settings, tmp_path):
    four = write_csv(
        tmp_path / "four.csv", ("text", "label"),
        ("good", "pos"), ("fine film", "pos"), ("bad", "neg"), ("dull", "neg"),
    )  # fmt: skip
    result = finetune_linear(Classify, replace(settings, train=four))
    assert result.cross_validation.num_folds == 4
    assert result.cross_validation.c in FEW_STRENGTHS
    assert "cross-validation with 4 folds chose the penalty (C = " in str(result)
    same = write_csv(tmp_path / "same.csv", ("text", "label"), ("film", "pos"), ("film", "neg"))
    again = finetune_linear(Classify, replace(settings, train=same, overwrite=True))
    assert again.cross_validation is None
    shares = load(settings.out, device="cpu").probabilities(["film"])
    np.testing.assert_allclose(shares, 0.5, atol=0.01)


def test_the_shares_of_labels_in_few_texts_count_for_less_than_those_in_many(settings, tmp_path):
    """The answer to a text of unknown words is the bias: the share of a label, or nearer to 1/2."""
    likely = {}
    for repeats in (1, 10):
        rows = [(word, label) for word in ("film", "story", "the", "a")
                for label in ("neg", "neg", "neg", "pos")] * repeats  # fmt: skip
        train = write_csv(tmp_path / "train.csv", ("text", "label"), *rows)
        few = replace(settings, train=train, eval=Path(), head="counts", overwrite=True)
        finetune_linear(Classify, few)
        predictor = load(settings.out, device="cpu", precision="fp32")
        likely[repeats] = predictor("lovely").probabilities["neg"]
    assert 0.5 < likely[1] < 0.73
    assert likely[10] == pytest.approx(0.75, abs=0.01)


def test_another_model_in_the_folder_leaves_no_head_behind(settings):
    finetune_linear(Classify, settings)
    trained = replace(settings, head="fine-tuned", steps=2, overwrite=True, learning_rate=1e-3)
    finetune(Classify, trained)
    assert not (settings.out / LINEAR_HEAD_FILE).exists()
    assert type(load(settings.out, device="cpu").definition) is Classify


def test_a_linear_head_can_be_fitted_to_the_encoder_of_another_one(settings, base, whole):
    result = finetune_linear(Classify, replace(settings, model=base.out))
    assert result.evaluation.accuracy == whole.evaluation.accuracy


def test_the_estimator_trains_on_all_its_examples(base):
    texts = ["a good film", "fine story", "lovely", "bad film", "dull story", "awful"] * 3
    labels = [1, 1, 1, 0, 0, 0] * 3
    classifier = TextClassifier(base.model, head="linear", precision="fp32", verbose=0)
    classifier.fit(texts, labels)
    assert classifier.result_.num_train == 18
    assert classifier.predict(["good", "awful"]).tolist() == [1, 0]
    assert classifier.predict_proba(["good"]).sum() == pytest.approx(1)


def test_options_of_a_training_are_refused(base):
    with refuses(ConfigError, "--head linear", "--epochs", "--learning-rate"):
        replace(base, epochs=2.0, learning_rate=1e-3)
    with refuses(ConfigError, "--seeds"):
        replace(base, seeds=3)
    with refuses(ConfigError, "--head", "linear"):
        replace(base, head="square")


def test_an_occupied_folder_is_kept(base, whole):
    before = contents(base.out)
    with refuses(ConfigError, "holds an earlier run"):
        finetune_linear(Classify, base)
    assert contents(base.out) == before


@pytest.mark.parametrize("head", ["linear", "counts"])
def test_a_stopped_run_begins_again_since_it_is_not_resumed(settings, monkeypatch, head):
    settings = replace(settings, head=head, corpus=None)
    fsync = os.fsync

    def full(file):
        if "/.README.md." in str(Path(f"/proc/self/fd/{file}").readlink()):
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(file)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with refuses(InputError, "README.md: the disk is full", "--overwrite") as of_disk:
            finetune_linear(Classify, settings, (), "bertsmith finetune --resume")
    with refuses(CheckpointError, "stopped before its end", "--overwrite") as of_load:
        load(settings.out, device="cpu")
    with refuses(ConfigError, "holds an earlier run", "--overwrite") as of_run:
        finetune_linear(Classify, settings)
    assert not any("resume" in str(each.value) for each in (of_disk, of_load, of_run))
    finetune_linear(Classify, replace(settings, overwrite=True))
    assert load(settings.out, device="cpu", precision="fp32")("a good film").label == "pos"


@pytest.fixture
def damaged(settings):
    """Return a function that changes tensors of a fitted head and loads the folder."""
    finetune_linear(Classify, settings)

    def load_with(**changes):
        file = settings.out / LINEAR_HEAD_FILE
        write_safetensors(file, {**read_safetensors(file), **changes})
        return load(settings.out, device="cpu")

    return load_with


@pytest.mark.same_on_all_computers
@pytest.mark.parametrize(
    ("name", "tensor", "told"),
    [
        ("bias", torch.zeros(3), "bias has the shape [3], not [2]"),
        ("bias", torch.full((2,), torch.nan), "NaN"),
        ("bias", torch.zeros(2, dtype=torch.bfloat16), "bias has the type torch.bfloat16"),
        ("vector_weights", torch.zeros(23, 2), "vector_weights has the shape [23, 2]"),
        ("ngram_keys", torch.zeros(4, dtype=torch.int64), "shape"),
        ("ngram_keys", torch.tensor(4), "ngram_keys has 0 dimensions, not 1"),
        ("special_ids", torch.tensor(4), "special_ids has 0 dimensions, not 1"),
        ("more", torch.zeros(1), "it holds bias, more, "),
    ],
)
def test_a_head_that_does_not_fit_is_refused(damaged, name, tensor, told):
    with refuses(CheckpointError, LINEAR_HEAD_FILE, told, worded=False):
        damaged(**{name: tensor})


def test_keys_out_of_order_are_refused(damaged, settings):
    keys = read_safetensors(settings.out / LINEAR_HEAD_FILE)["ngram_keys"]
    with refuses(CheckpointError, "not in ascending order"):
        damaged(ngram_keys=keys.flip(0))


@pytest.mark.same_on_all_computers
def test_a_folder_without_its_labels_is_refused(settings):
    finetune_linear(Classify, settings)
    file = settings.out / "config.json"
    config = json.loads(file.read_text())
    del config["bertsmith"]["labels"]
    file.write_text(json.dumps(config))
    (settings.out / "SHA256SUMS").unlink()
    with refuses(CheckpointError, "config.json", "does not name the labels"):
        load(settings.out, device="cpu")


def test_a_linear_head_neither_teaches_nor_is_made_smaller(settings, base, whole, tmp_path):
    student = DistillSettings(teacher=base.out, student=base.model)
    trained = replace(settings, head="fine-tuned", steps=2)
    with refuses(CheckpointError, "has a linear head"):
        distill(student, Classify, trained)
    fewer = CompressSettings(
        model=base.out, out=tmp_path / "small", layers=LayerSettings(num_layers=1)
    )
    with refuses(CheckpointError, "linear head", "whole model"):
        compress(fewer)


@pytest.mark.same_on_all_computers
@pytest.mark.parametrize("task", [Classify(("a", "b")), MultiLabel(("a", "b", "c"))])
def test_a_linear_head_takes_the_place_of_another(task):
    ngrams = TokenNgrams(np.zeros(0, np.int64), np.zeros(0, np.float32), 23, frozenset())
    size = len(task.labels)
    first, second = (
        LinearHead(
            np.full((5, size), number, np.float32),
            np.zeros(size, np.float32),
            ngrams,
            np.zeros((0, size), np.float32),
        )
        for number in (1, 2)
    )
    with_first = with_linear_head(task, first)
    with_second = with_linear_head(with_first, second)
    assert type(with_second) is type(with_first) and with_second == with_first
    assert with_first.linear is first and with_second.linear is second

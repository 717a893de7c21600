"""An ELMo sorts texts into classes by the mix of its layers, frozen or fine-tuned."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from refusals import refuses
from stop_at import StopAt
from tiny_models import tiny_tokenizer, write_reviews
from torch import nn

from bertsmith.data.batches import pack
from bertsmith.errors import ConfigError, Interrupted
from bertsmith.finetuning.run import finetune
from bertsmith.lineage.elmo import Elmo, ElmoConfig
from bertsmith.lineage.elmo_classifier import ElmoClassifierConfig, read_mix
from bertsmith.lineage.elmo_folder import load_elmo, save_elmo
from bertsmith.model.loading import build, load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.model.saving import save_model
from bertsmith.model.weight_formats.safetensors_file import read_safetensors
from bertsmith.tasks.logits import sequence_logits
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.text_classification import Classify

LENGTHS = (1, 29, 7, 7, 13, 2)
SIZE = 37


@pytest.fixture(scope="module")
def language_models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lm")
    tokenizer = tiny_tokenizer()
    torch.manual_seed(0)
    config = ElmoConfig(
        tokenizer.vocab_size, SIZE, 2, 43, filters=((1, 11), (3, 17), (5, 29)), character_size=5,
        eos_token_id=tokenizer.sep_id, pad_token_id=tokenizer.pad_id,
    )  # fmt: skip
    model = Elmo(config)
    for filters in model.cnn.filters:  # wider than in a new model, so that pieces differ
        nn.init.uniform_(filters.weight, -1.0, 1.0)
    save_elmo(model, folder, tokenizer)
    return folder


@pytest.fixture
def batch(language_models):
    rng = np.random.default_rng(0)
    vocab_size = load_elmo(language_models).config.vocab_size
    return pack([rng.integers(0, vocab_size, length) for length in LENGTHS])


@pytest.fixture
def classifier(language_models):
    model = build(read_folder(language_models, to_classify=True), ["classify"], 3)
    nn.init.normal_(model.heads["classify"].dense.weight)
    return model


@pytest.mark.parametrize("weights", [(0.0, 0.0, 0.0), (1.0, -2.0, 0.5)])
def test_logits_are_those_of_the_mixed_layers_of_the_language_models(
    classifier, language_models, batch, weights
):
    elmo, mix = load_elmo(language_models), classifier.pooler.mix
    assert mix.weights.tolist() == [0.0] * 3 and mix.scale.item() == 1.0
    with torch.no_grad():
        mix.weights.copy_(torch.tensor(weights))
        mix.scale.fill_(0.7)
        layers = elmo.encode_layers(batch)
        torch.testing.assert_close(
            classifier.encode(batch), torch.cat(layers, -1), atol=1e-6, rtol=1e-5
        )
        shares = np.exp(weights) / np.exp(weights).sum()
        mixed = 0.7 * sum(float(share) * layer for share, layer in zip(shares, layers, strict=True))
        vectors = torch.stack([row.max(0).values for row in mixed.split(batch.lengths)])
        expected = classifier.heads["classify"].dense(vectors)
        found = sequence_logits(classifier, batch, "classify")
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_padded_equals_packed(classifier):
    rng = np.random.default_rng(1)
    rows = [rng.integers(5, classifier.config.vocab_size, length) for length in LENGTHS]
    ids = nn.utils.rnn.pad_sequence(list(map(torch.from_numpy, rows)), batch_first=True)
    mask = torch.arange(ids.shape[1]) < torch.tensor(LENGTHS)[:, None]
    packed = pack(rows)
    with torch.no_grad():
        padded = classifier(input_ids=ids, attention_mask=mask.long()).logits
        found = sequence_logits(classifier, packed, "classify")
    torch.testing.assert_close(found, padded[list(packed.order)], atol=1e-6, rtol=1e-6)


def test_a_folder_comes_back(classifier, tmp_path):
    with torch.no_grad():
        classifier.pooler.mix.weights.copy_(torch.tensor([0.1, 0.2, 0.3]))
    save_model(classifier, tmp_path, id2label={0: "a", 1: "b", 2: "c"})
    again = load_model(tmp_path)
    assert again.config == classifier.config and again.id2label == {0: "a", 1: "b", 2: "c"}
    for name, tensor in classifier.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    assert torch.equal(read_mix(tmp_path).shares, classifier.pooler.mix.shares)


def test_a_shape_that_cannot_be_is_refused():
    with refuses(ConfigError, "cell_size", "12", "13"):
        ElmoClassifierConfig(101, hidden_size=13, num_hidden_layers=2, cell_size=12)


@pytest.fixture(scope="module")
def settings(language_models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("elmo")
    return ClassifySettings(
        model=language_models, train=write_reviews(folder / "train.csv", 80),
        eval=write_reviews(folder / "eval.csv", 30, seed=1), out=folder / "out", steps=240,
        learning_rate=5e-2, seed=2, threads=1, device="cpu", precision="fp32", freeze_layers=2,
    )  # fmt: skip


@pytest.fixture(scope="module")
def frozen(settings):
    return finetune(Classify, settings)


def test_of_a_frozen_elmo_the_mix_alone_learns(frozen, language_models, bertsmith, settings):
    assert frozen.evaluation.accuracy > 0.8  # 0.5 is guessing
    before = build(read_folder(language_models, to_classify=True), ["classify"], 2).state_dict()
    after = load_model(frozen.out).state_dict()
    changed = {name for name in after if not torch.equal(after[name], before[name])}
    assert changed == {
        "pooler.mix.weights", "pooler.mix.scale", "heads.classify.dense.weight",
        "heads.classify.dense.bias",
    }  # fmt: skip
    mix = read_mix(frozen.out)
    assert frozen.layer_shares == tuple(mix.shares.tolist())
    assert sum(frozen.layer_shares) == pytest.approx(1.0) and frozen.layer_gamma != 1.0
    result = json.loads((frozen.out / "run.json").read_text(encoding="utf-8"))["result"]
    assert result["layer_shares"] == list(frozen.layer_shares)
    assert f"times {frozen.layer_gamma:.3f}" in str(frozen)
    line = ("--device", "cpu", "--precision", "fp32", "--json")
    predicted = json.loads(bertsmith("predict", frozen.out, "a lovely film", *line))
    assert predicted["predictions"][0]["label"] == "pos"
    scores = json.loads(bertsmith("evaluate", frozen.out, "--data", settings.eval, *line))
    assert scores["accuracy"] == frozen.evaluation.accuracy
    counts = json.loads(bertsmith("params", frozen.out, "--json"))
    stored = read_safetensors(frozen.out / "model.safetensors").values()
    assert counts["parameters"] == sum(tensor.numel() for tensor in stored)
    card = (frozen.out / "README.md").read_text(encoding="utf-8")
    assert "library_name: bertsmith" in card and "transformers opens" not in card


def test_other_commands_refuse_the_classifier(frozen, refused):
    assert "an ELMo classifier" in refused("look", frozen.out, "a film", "--out", "a.html")
    assert "an ELMo classifier" in refused("generate", frozen.out, "a film")


def test_no_vectors_of_texts_are_written(frozen, refused, tmp_path):
    (tmp_path / "texts.txt").write_text("good\nbad\n")
    out = tmp_path / "vectors.npy"
    assert "an ELMo" in refused("embed", frozen.out, tmp_path / "texts.txt", "--out", out)
    assert not out.exists()


def test_a_fine_tuned_elmo_resumes_bit_for_bit(settings, language_models, tmp_path):
    whole, stopped = (
        replace(settings, freeze_layers=0, steps=9, learning_rate=5e-3, out=tmp_path / name)
        for name in ("a", "b")
    )
    finetune(Classify, whole)
    with pytest.raises(Interrupted):
        finetune(Classify, stopped, [StopAt(4)])
    finetune(Classify, replace(stopped, resume=True))
    ours, expected = (read_safetensors(each.out / "model.safetensors") for each in (stopped, whole))
    assert ours.keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in ours.items())
    name = "left_to_right.layers.0.weight_hr_l0"
    start = read_safetensors(language_models / "model.safetensors")
    assert not torch.equal(ours[name], start[name])


def test_an_lstms_pooling_is_refused(settings, tmp_path):
    with refuses(ConfigError, "--pooling", "neither an LSTM nor a GRU"):
        finetune(Classify, replace(settings, pooling="last", out=tmp_path / "out"))

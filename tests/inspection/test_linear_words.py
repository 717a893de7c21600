"""Linear heads: the shares of the tokens add up to the logits of the prediction."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from refusals import refuses
from review_settings import settings_on_reviews
from tiny_models import reviews, write_csv

from bertsmith.errors import ConfigError
from bertsmith.finetuning.linear_run import finetune_linear
from bertsmith.inspection.look import look
from bertsmith.tasks.auto import load
from bertsmith.tasks.linear_head import CorpusWeights
from bertsmith.tasks.text_classification import Classify

TEXT = "the film was good good and not a bad film ."


@pytest.fixture(scope="module", params=["linear", "counts"])
def folder(request, tmp_path_factory):
    base = tmp_path_factory.mktemp(request.param)
    settings = settings_on_reviews(base, 120, head="linear")
    settings = replace(settings, head=request.param, out=base / "out")
    finetune_linear(Classify, settings)
    return settings.out


def check_shares(folder):
    result = look(folder, TEXT, device="cpu")
    predictor = load(folder, device="cpu", precision="fp32")
    encoded = predictor.encode_examples([predictor.example({"text": TEXT})])
    (logits,) = predictor.definition.compute_outputs(predictor.model, encoded)
    assert {each.label for each in result.decided.decisions} == {"neg", "pos"}
    for decision, each in zip(result.decided.decisions, result.attributions, strict=True):
        number = predictor.labels.index(decision.label)
        assert each.logit == pytest.approx(logits[number], abs=1e-4)
        bias = predictor.definition.linear.bias[number]
        assert each.baseline_logit == pytest.approx(bias)
        assert each.values.sum() == pytest.approx(each.logit - bias)


def test_shares_add_up_to_the_logits_of_the_prediction(folder):
    check_shares(folder)


def test_shares_of_a_head_that_learned_from_a_corpus_add_up(folder, tmp_path):
    copied = shutil.copytree(folder, tmp_path / "with-corpus")
    linear = load(copied, device="cpu").definition.linear
    rng = np.random.default_rng(1)
    shapes = ((linear.ngrams.vocab_size, 2), linear.ngram_weights.shape)
    of_tokens, of_ngrams = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    corpus = CorpusWeights(of_tokens, linear.ngrams, of_ngrams)
    replace(linear, corpus=corpus).save(copied)
    check_shares(copied)


def test_a_word_that_tells_the_label_has_the_largest_share(folder):
    result = look(folder, "the film was good", device="cpu")
    decision, first = result.decided.decisions[0], result.attributions[0]
    assert decision.label == "pos"
    assert result.tokens[int(first.values.argmax())] == "good"
    assert result.data["isLinear"]


def test_counted_tokens_that_are_not_there_add_nothing(folder):
    head = load(folder, device="cpu").definition.linear
    result = look(folder, TEXT, device="cpu")
    if head.vector_weights.any():
        return
    special = [number for number, token in enumerate(result.tokens) if token[0] == "["]
    assert special and not any(each.values[special].any() for each in result.attributions)
    assert np.abs(result.attributions[0].values).sum() > 0


def test_predicted_labels_are_on_the_map(folder, tmp_path):
    texts = [example.text for example in reviews(23)]
    path = write_csv(tmp_path / "a.csv", ["text"], *([text] for text in texts))
    view = look(folder, TEXT, data=path, device="cpu").page.corpus
    predictor = load(folder, device="cpu", precision="fp32")
    assert view.labels == tuple(each.label for each in predictor(texts))
    assert set(view.labels) == {"neg", "pos"}
    assert view.are_labels_predicted


def test_no_head_of_the_encoder_is_left_out(folder):
    with refuses(ConfigError, "--without", "linear head"):
        look(folder, TEXT, without="1.1", device="cpu")

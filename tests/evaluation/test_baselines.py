"""Plain methods beside a model's scores: fitted to training examples, scored on eval examples."""

from collections import Counter
from pathlib import Path

import pytest
from tiny_models import save_tiny

from bertsmith.data.examples import Example
from bertsmith.data.multiple_choice import ChoiceExample
from bertsmith.data.tagged import TaggedSentence
from bertsmith.evaluation.baselines import (
    MAX_TRAIN_CHARS,
    StoredMajority,
    cheap_baselines,
    costly_baselines,
    score_majority,
    score_tfidf,
)
from bertsmith.system.compute import InferenceCompute
from bertsmith.tasks.scoring import Outcome

TRAIN = [Example("good film", label="1")] * 3 + [Example("bad film", label="0")] * 2
EVAL = [Example("good", label="1"), Example("bad", label="0"), Example("bad", label="0")]


def only(baselines):
    (baseline,) = baselines
    return baseline


def test_the_majority_class_is_that_of_training():
    baseline = only(cheap_baselines("classify", TRAIN, EVAL, {}))
    assert (baseline.key, baseline.answer) == ("majority", "1")
    assert baseline.scores == {"accuracy": pytest.approx(1 / 3), "macro_f1": pytest.approx(0.25)}
    assert str(baseline) == "baseline  always '1': accuracy 0.3333, macro-F1 0.2500"
    assert score_majority("never", Counter(a=1)).scores == {"accuracy": 0.0, "macro_f1": 0.0}


def test_tfidf_is_fitted_to_training_alone():
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    baseline = score_tfidf(TRAIN, EVAL)
    assert baseline.scores["accuracy"] == 1.0
    unknown = [Example("unseen", label="2")]
    assert score_tfidf(TRAIN, unknown).scores["accuracy"] == 0.0
    assert score_tfidf(TRAIN[:3], EVAL) is None  # one class
    assert score_tfidf([Example("a", "b", "1"), Example("c", "d", "0")], EVAL) is None
    assert score_tfidf([Example("!", label="1"), Example("?", label="0")], EVAL) is None
    long = [Example(f"{'good' if i % 2 else 'bad'} " * 20_000, label=str(i % 2)) for i in range(40)]
    assert sum(len(example.text) for example in long) > MAX_TRAIN_CHARS
    assert "of the 40 texts" in score_tfidf(long, EVAL).method


def test_each_word_has_its_usual_label():
    train = [
        TaggedSentence(("Ada", "met", "Bob"), ("B-PER", "O", "B-PER"), scheme="IOB2"),
        TaggedSentence(("Ada", "ran"), ("B-PER", "O"), scheme="IOB2"),
    ]
    held_out = [TaggedSentence(("Bob", "saw", "Eve"), ("B-PER", "O", "B-PER"), scheme="IOB2")]
    scores = only(cheap_baselines("tag", train, held_out, {})).scores
    assert scores["accuracy"] == pytest.approx(2 / 3)  # unknown words have the most frequent one
    assert scores["f1"] == pytest.approx(0.8)


def test_a_choice_is_that_of_the_usual_place():
    rows = [ChoiceExample("a", ("b", "c"), label) for label in (1, 1, 0)]
    assert only(cheap_baselines("choose", rows, rows[1:], {})).scores == {"accuracy": 0.5}


def test_vectors_are_scored_before_training():
    first = {"step": 0, "held_out_embed_spearman": 0.5, "held_out_embed_loss": 1.0}
    rows = [Example("a", "b", "1")]
    assert only(cheap_baselines("embed", rows, rows, first)).scores == {"spearman": 0.5}
    assert cheap_baselines("embed", rows, rows, {**first, "step": 3}) == []


def test_pairs_have_the_cosine_of_the_model_before(tmp_path):
    model = save_tiny(tmp_path / "model", "masked_lm")
    texts = ("good film", "bad film", "a lovely day")
    rows = [
        Example(first, second, str(float(first == second))) for first in texts for second in texts
    ]
    compute = InferenceCompute(device="cpu", precision="fp32")
    baseline = only(costly_baselines("regress", rows, rows, model, compute))
    assert baseline.key == "cosine"
    assert baseline.scores["pearson"] > 0.5  # equal texts have the cosine 1
    assert costly_baselines("regress", rows, rows, Path(tmp_path / "none"), compute) == []
    assert costly_baselines("regress", [Example("a", label="1")], [], model, compute) == []


def test_an_evaluation_knows_the_majority_class_of_training():
    stored = {"result": {"baselines": [{"key": "majority", "answer": "1"}]}}
    seen = [Outcome("", "1", "0", 0.0), Outcome("", "0", "0", 1.0)]
    majority = StoredMajority(stored)
    assert majority.baselines() == []
    majority.see([None, None], seen)
    assert only(majority.baselines()).scores["accuracy"] == 0.5
    for other in ({}, {"result": None}, {"result": {"baselines": [{"key": "tfidf"}, 3]}}):
        unknown = StoredMajority(other)
        unknown.see([None], seen[:1])
        assert unknown.baselines() == []

"""A calibration finds the scale and the biases that held-out answers were made with."""

import numpy as np
import pytest
from tiny_models import tiny_tokenizer

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import encode_texts
from bertsmith.finetuning.label_calibration import (
    HeldOutAnswers,
    fit_calibration,
    join_answers,
)
from bertsmith.tasks.linear_head import LinearHead
from bertsmith.tasks.probabilities import softmax64
from bertsmith.tasks.token_ngrams import TokenNgrams


def answers_of(logits, labels, importance=None):
    importance = np.ones(len(labels)) if importance is None else importance
    return HeldOutAnswers(softmax64(logits), labels, importance, num_folds=5)


def draw_labels(logits, rng):
    """Draw labels with the probabilities of these logits."""
    noise = rng.gumbel(size=logits.shape)
    return (logits + noise).argmax(1)


def test_the_scale_and_the_biases_of_many_answers_are_found():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(20_011, 3)) * 2
    biases = np.array([0.7, -0.2, -0.5])
    labels = draw_labels(0.4 * logits + biases, rng)
    calibration = fit_calibration(answers_of(logits, labels))
    assert calibration.scale == pytest.approx(0.4, rel=0.05)
    differences = np.array(calibration.biases) - calibration.biases[0]
    assert differences == pytest.approx(biases - biases[0], abs=0.1)
    assert calibration.loss_after < calibration.loss_before
    assert calibration.num_folds == 5


def test_answers_that_tell_nothing_give_the_most_frequent_label():
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(97, 2)) * 5
    labels = (rng.random(97) < 0.75).astype(np.int64)
    calibration = fit_calibration(answers_of(logits, labels))
    calibrated = calibration.scale * logits + np.array(calibration.biases)
    assert (calibrated.argmax(1) == labels).mean() > (logits.argmax(1) == labels).mean() + 0.1


def test_a_few_answers_that_are_all_right_leave_the_scale_finite_and_change_no_answer():
    labels = np.array([0, 1, 0, 1, 1, 0, 1])
    logits = np.where(np.eye(2)[labels] > 0, 4.6, -4.6)
    calibration = fit_calibration(answers_of(logits, labels))
    assert 0.01 < calibration.scale < 10
    calibrated = calibration.scale * logits + np.array(calibration.biases)
    assert (calibrated.argmax(1) == labels).all()


def test_the_importance_of_a_text_is_as_if_it_occurred_so_often():
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(41, 3))
    labels = draw_labels(logits, rng)
    counts = rng.integers(1, 4, 41)
    weighted = fit_calibration(answers_of(logits, labels, counts.astype(np.float64)))
    repeated = fit_calibration(answers_of(logits.repeat(counts, 0), labels.repeat(counts)))
    assert weighted.scale == pytest.approx(repeated.scale, rel=1e-3)
    assert weighted.biases == pytest.approx(repeated.biases, abs=1e-3)


def test_a_calibrated_head_scales_and_shifts_its_logits():
    rng = np.random.default_rng(3)
    texts = ["a good film", "an awful story", "the film"]
    rows = encode_texts(tiny_tokenizer(), ((text, None) for text in texts), 37)
    examples = EncodedExamples.of_texts(rows)
    tokenizer = tiny_tokenizer()
    ngrams = TokenNgrams.fit(
        examples, tokenizer.vocab_size, frozenset(tokenizer.special_ids), 1_000
    )
    head = LinearHead(
        rng.normal(size=(5, 3)).astype(np.float32),
        rng.normal(size=3).astype(np.float32),
        ngrams,
        rng.normal(size=(len(ngrams), 3)).astype(np.float32),
    )
    labels = np.array([0, 1, 2, 2, 1])
    calibration = fit_calibration(answers_of(rng.normal(size=(5, 3)), labels))
    vectors = rng.normal(size=(3, 5)).astype(np.float32)

    def logits_of(head):
        counted = ngrams.transform(examples).multiply(head.ngram_weights)
        return vectors @ head.vector_weights + counted + head.bias

    expected = calibration.scale * logits_of(head) + np.array(calibration.biases)
    assert logits_of(calibration.apply(head)) == pytest.approx(expected, abs=1e-5)


def test_the_answers_of_folds_are_joined_in_their_order():
    rng = np.random.default_rng(4)
    logits, labels = rng.normal(size=(7, 2)), np.array([0, 1, 1, 0, 1, 0, 0])
    parts = [answers_of(logits[:3], labels[:3]), answers_of(logits[3:], labels[3:])]
    joined = join_answers(parts)
    assert joined.num_folds == 2
    assert (joined.probabilities == softmax64(logits)).all()
    assert (joined.labels == labels).all() and len(joined.importance) == 7

"""The cross-validation of a linear head scores predictions as the fitted head makes them."""

from dataclasses import replace

import numpy as np
import pytest
from tiny_models import BAD, GOOD, OTHER, tiny_tokenizer

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import encode_texts
from bertsmith.finetuning.linear_features import FeatureSettings, LabelledTexts
from bertsmith.finetuning.linear_fit import (
    DEFAULT_STRENGTH,
    cross_validate,
    fit_linear_head,
    fit_weights,
    score_held_out,
)
from bertsmith.finetuning.mean_of_fits import share_of_counts
from bertsmith.tasks.logistic_regression import mean_loss


def random_texts(targets, seed=0):
    """Encode random words as texts, each with a random vector, with these targets."""
    rng = np.random.default_rng(seed)
    words = [*GOOD, *BAD, *OTHER]
    texts = [" ".join(rng.choice(words, rng.integers(1, 11))) for _ in targets]
    rows = encode_texts(tiny_tokenizer(), ((text, None) for text in texts), 37)
    vectors = rng.normal(size=(len(texts), 5)) * rng.uniform(0.1, 7, 5)
    examples = EncodedExamples.of_texts(rows)
    return LabelledTexts(examples, vectors.astype(np.float32), targets.astype(np.float32))


@pytest.mark.parametrize(("threshold", "label"), [(0.999, 0.0), (0.001, 1.0)])
def test_a_text_has_the_labels_whose_probabilities_reach_the_threshold(threshold, label):
    targets = np.random.default_rng(0).random((23, 2)) < 0.5
    texts = random_texts(targets)
    folds = np.array_split(np.arange(23), 3)
    held_out = cross_validate(
        texts,
        folds,
        FeatureSettings.of(texts, tiny_tokenizer()),
        strengths=(0.01,),  # all probabilities are close to the shares of the labels
        is_multi_label=True,
    )
    scores = score_held_out(held_out, is_multi_label=True, threshold=threshold)
    assert scores.accuracy == pytest.approx((targets == label).all(1).mean())


def test_a_fold_is_scored_by_a_head_that_has_seen_nothing_of_it():
    """Neither its n-grams, nor their document frequencies, nor the mean of its vectors."""
    texts = random_texts(np.eye(3)[np.random.default_rng(1).integers(0, 3, 173)])
    folds = np.array_split(np.random.default_rng(2).permutation(173), 4)[:3]
    tokenizer = tiny_tokenizer()
    held_out = cross_validate(
        texts,
        folds,
        FeatureSettings.of(texts, tokenizer),
        strengths=(DEFAULT_STRENGTH,),
        is_multi_label=False,
    )
    scores = score_held_out(held_out, is_multi_label=False)
    logits = []
    for fold in folds:
        others = texts.select(np.setdiff1d(np.arange(173), fold))
        head, _ = fit_linear_head(others, (), tokenizer, is_multi_label=False)
        held_out = texts.select(fold)
        counts = head.ngrams.transform(held_out.examples).multiply(head.ngram_weights)
        logits.append(held_out.vectors @ head.vector_weights + counts + head.bias)
    targets = texts.targets[np.concatenate(folds)]
    everything = np.concatenate(logits)
    assert scores.loss == pytest.approx(mean_loss(everything, targets, is_multi_label=False), 1e-4)
    right = everything.argmax(1) == targets.argmax(1)
    assert scores.accuracy == pytest.approx(right.mean())
    assert scores.num_folds == 3


def logits_of_head(head, texts):
    counts = head.ngrams.transform(texts.examples).multiply(head.ngram_weights)
    return texts.vectors @ head.vector_weights + counts + head.bias


@pytest.mark.parametrize("is_multi_label", [False, True])
def test_a_head_is_the_mean_of_a_fit_with_vectors_and_of_one_to_counts_alone(is_multi_label):
    rng = np.random.default_rng(3)
    targets = np.eye(3)[rng.integers(0, 3, 131)]
    if is_multi_label:
        targets = rng.random((131, 3)) < 0.4
    texts = random_texts(targets)
    tokenizer = tiny_tokenizer()
    folds = np.array_split(rng.permutation(131), 5)
    head, scores = fit_linear_head(texts, folds, tokenizer, is_multi_label=is_multi_label)
    assert 0 < scores.share_of_counts < 1
    settings = FeatureSettings.of(texts, tokenizer)
    without_vectors = replace(texts, vectors=np.zeros_like(texts.vectors))
    of_both = [
        fit_weights(each, folds, settings, is_multi_label=is_multi_label)
        for each in (texts, without_vectors)
    ]
    joint, counts = (
        logits_of_head(each.extractor.head_of(each.weights), texts) for each in of_both
    )
    expected = (1 - scores.share_of_counts) * joint + scores.share_of_counts * counts
    assert logits_of_head(head, texts) == pytest.approx(expected, abs=1e-4)


def test_the_share_of_counts_is_large_where_only_words_tell_the_label():
    """Each label has its own words and the vectors are noise; then the vectors tell the label."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 2, 211)
    words = [rng.choice(GOOD if label else BAD) for label in labels ^ (rng.random(211) < 0.1)]
    texts = [f"{word} {rng.choice(OTHER)}" for word in words]
    examples = EncodedExamples.of_texts(
        encode_texts(tiny_tokenizer(), ((text, None) for text in texts), 37)
    )
    noise = rng.normal(size=(211, 173)).astype(np.float32)
    targets = np.eye(2, dtype=np.float32)[labels]
    folds = np.array_split(rng.permutation(211), 5)
    by_words = LabelledTexts(examples, noise, targets)
    signal = (noise + 3 * (labels - 0.5)[:, None]).astype(np.float32)
    random_words = random_texts(targets, seed=1).examples
    by_vectors = LabelledTexts(random_words, signal, targets)
    shares = [
        fit_linear_head(each, folds, tiny_tokenizer(), is_multi_label=False)[1].share_of_counts
        for each in (by_words, by_vectors)
    ]
    assert shares[0] > 0.25 > shares[1]


def test_a_share_of_counts_is_a_number_even_if_the_first_fit_is_sure_and_always_wrong():
    """Then the counts alone are likelier than every mean by more than a float can hold."""
    labels = np.random.default_rng(3).integers(0, 2, 101)
    texts = random_texts(np.eye(2, dtype=np.float32)[labels])
    right = (10 * texts.targets).astype(np.float32)
    wrong = (1000 - 1000 * texts.targets).astype(np.float32)
    assert share_of_counts(wrong, right, texts, is_multi_label=False) == pytest.approx(0.95)


def test_counted_tokens_alone_and_a_handful_of_texts_have_no_second_fit():
    texts = random_texts(np.eye(2)[np.random.default_rng(1).integers(0, 2, 37)])
    without_vectors = replace(texts, vectors=np.zeros_like(texts.vectors))
    handful = texts.select(np.arange(31))
    for each in (without_vectors, handful):
        folds = np.array_split(np.arange(len(each)), 4)
        _, scores = fit_linear_head(each, folds, tiny_tokenizer(), is_multi_label=False)
        assert scores.share_of_counts == 0

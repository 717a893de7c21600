"""The cross-validation of a linear head scores predictions as the fitted head makes them."""

import numpy as np
import pytest
from tiny_models import BAD, GOOD, OTHER, tiny_tokenizer

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import encode_texts
from bertsmith.finetuning.linear_features import FeatureSettings, LabelledTexts
from bertsmith.finetuning.linear_fit import DEFAULT_STRENGTH, cross_validate, fit_linear_head
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
    scores = cross_validate(
        texts,
        np.array_split(np.arange(23), 3),
        FeatureSettings.of(texts, tiny_tokenizer()),
        strengths=(0.01,),  # all probabilities are close to the shares of the labels
        is_multi_label=True,
        threshold=threshold,
    )
    assert scores.accuracy == pytest.approx((targets == label).all(1).mean())


def test_a_fold_is_scored_by_a_head_that_has_seen_nothing_of_it():
    """Neither its n-grams, nor their document frequencies, nor the mean of its vectors."""
    texts = random_texts(np.eye(3)[np.random.default_rng(1).integers(0, 3, 173)])
    folds = np.array_split(np.random.default_rng(2).permutation(173), 4)[:3]
    tokenizer = tiny_tokenizer()
    scores = cross_validate(
        texts,
        folds,
        FeatureSettings.of(texts, tokenizer),
        strengths=(DEFAULT_STRENGTH,),
        is_multi_label=False,
    )
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

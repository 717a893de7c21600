"""Fit a linear head to labelled texts and to a corpus without labels.

The corpus helps in two ways. First, it gives each token of the vocabulary a *counted vector*, which
is computed from the counts of the token's neighbours. So a token that no labelled text has gets a
weight like that of tokens with similar neighbours. Second, the corpus gives more labelled texts. A
first head, fitted to the labelled texts, classifies all sentences of a document. The mean of its
logits over a document is less often wrong than the logits of one sentence. So its probabilities
become the labels of all sentences of the document. A second head is fitted to the labelled texts
and to these sentences. The result is the mean of both heads.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.finetuning.linear_features import FeatureSettings, LabelledTexts
from bertsmith.finetuning.linear_fit import CrossValidation, fit_mean_weights, score_fit
from bertsmith.finetuning.unlabelled_texts import UnlabelledTexts, join_vectors
from bertsmith.tasks.linear_head import CorpusWeights, LinearHead
from bertsmith.tasks.logistic_regression import fit
from bertsmith.tasks.probabilities import softmax64
from bertsmith.tokenization.tokenizer import Tokenizer

MAX_SENTENCES = 12_000
"""Largest number of sentences of the corpus that the second head learns from."""
LABEL_WEIGHT = 3.0
"""Weight of a labelled text beside that of a sentence, which is 1."""
SENTENCE_STRENGTH = 1.0
"""The inverse of the strength of the second head's L2 penalty, as C in scikit-learn."""


def fit_with_corpus(
    texts: LabelledTexts,
    folds: Sequence[NDArray[np.int64]],
    unlabelled: UnlabelledTexts,
    tokenizer: Tokenizer,
    seed: int,
) -> tuple[LinearHead, CrossValidation | None, int]:
    """Fit the mean of two heads, the second of which also learns from sentences of the corpus.

    Args:
        texts: the labelled texts, with their vectors from the encoder.
        folds: the indices that each fold of the first head's cross-validation holds out.
        unlabelled: the sentences of the corpus with their vectors, and the counted vectors.
        seed: determines which sentences the second head learns from if there are too many.

    Returns:
        The head; the scores of the first head in a cross-validation, if there was one; and the
        number of sentences that the second head learned from.
    """
    rng = np.random.default_rng(seed)
    sentences = unlabelled.sentences
    chosen = np.sort(rng.permutation(len(unlabelled.vectors))[:MAX_SENTENCES])

    # The first head reads the encoder's vector and the mean of the counted vectors, side by side.
    token_vectors = unlabelled.token_vectors
    part_sizes = (texts.vectors.shape[1], token_vectors.shape[1])
    vectors = join_vectors(texts.vectors, texts.examples, token_vectors, tokenizer)
    texts = replace(texts, vectors=vectors)
    settings = FeatureSettings.of(texts, tokenizer, part_sizes)
    fitted = fit_mean_weights(texts, folds, settings, is_multi_label=False)
    first = fitted.extractor.head_of(fitted.weights)
    scores = score_fit(fitted, is_multi_label=False)

    # It labels the sentences of the corpus.
    sentence_features = fitted.extractor.extract(unlabelled.vectors, sentences.examples)
    sentence_logits = fitted.weights.logits(sentence_features)
    targets = label_documents(sentence_logits, sentences.documents, texts.targets.mean(0))
    # The second head learns from the labelled texts and from the chosen sentences.
    texts_and_sentences = LabelledTexts(
        EncodedExamples.concat([texts.examples, sentences.examples.select(chosen.tolist())]),
        np.concatenate([texts.vectors, unlabelled.vectors[chosen]]),
        np.concatenate([texts.targets, targets[sentences.documents[chosen]]]),
        importance=_weigh_texts(texts, len(chosen)),
    )
    extractor = settings.fit(texts_and_sentences)
    weights = fit(
        extractor.extract(texts_and_sentences.vectors, texts_and_sentences.examples),
        texts_and_sentences.targets,
        SENTENCE_STRENGTH,
        is_multi_label=False,
        importance=texts_and_sentences.importance,
    )
    head = join_heads(first, extractor.head_of(weights), token_vectors)
    return head, scores, len(chosen)


def join_heads(first: LinearHead, second: LinearHead, counted: NDArray[np.float32]) -> LinearHead:
    """Join two heads to one, whose logits are the mean of theirs.

    Each head reads a vector of the encoder and a mean of counted vectors, side by side. The counted
    vectors are multiplied by their weights here. This gives one weight for each token and label, so
    that a prediction needs no counted vectors.

    Args:
        counted: the counted vector of each token, fp32 `[vocabulary, counted]`.
    """
    vector_weights = (first.vector_weights + second.vector_weights) * np.float32(0.5)
    hidden_size = len(vector_weights) - counted.shape[1]
    # The heads count different n-grams (tokens and pairs of tokens), so their weights stay apart,
    # and each counts half.
    corpus = CorpusWeights(
        counted @ vector_weights[hidden_size:],
        second.ngrams,
        second.ngram_weights * np.float32(0.5),
    )
    return LinearHead(
        vector_weights[:hidden_size].copy(),
        (first.bias + second.bias) * np.float32(0.5),
        first.ngrams,
        first.ngram_weights * np.float32(0.5),
        corpus,
    )


def label_documents(
    sentence_logits: NDArray[np.float32], documents: NDArray[np.int64], shares: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the probabilities of each document's labels, fp32 `[documents, labels]`.

    The logits of a document are the means over its sentences. A head often prefers one label in
    texts that are unlike those that it was fitted to. So the logits of each label are standardized
    over all documents. Then the logarithm of the label's share is added.

    Args:
        sentence_logits: logits of the first head, fp32 `[sentences, labels]`.
        documents: the document of each sentence, int64 `[sentences]`.
        shares: the share of each label among the labelled texts, fp32 `[labels]`.
    """
    counts = np.bincount(documents)
    means_of_labels = [
        np.bincount(documents, of_label) / np.maximum(counts, 1) for of_label in sentence_logits.T
    ]
    logits = np.stack(means_of_labels, axis=1)
    deviation = logits.std(0)  # 0 if all documents are equal
    logits = (logits - np.median(logits, axis=0)) / np.where(deviation > 0, deviation, 1)
    logits += np.log(np.maximum(shares, np.finfo(np.float32).tiny))
    return softmax64(logits).astype(np.float32)


def _weigh_texts(texts: LabelledTexts, num_sentences: int) -> NDArray[np.float32]:
    """Return the factor of each loss, fp32 `[rows, 1]`: of labelled texts, then of sentences."""
    num_texts = len(texts.targets)
    weights = np.ones((num_texts + num_sentences, 1), np.float32)
    weights[:num_texts] = LABEL_WEIGHT
    if texts.importance is not None:
        weights[:num_texts] *= texts.importance
    return weights

"""Fit a linear head to labelled texts and to a corpus without labels.

The corpus helps in two ways. First, vectors of tokens are counted in it, so that a token that no
labelled text has gets a weight like that of tokens with similar neighbours. Second, it gives more
labelled texts. A first head, fitted to the labelled texts, classifies all sentences of a document.
The mean of its logits is less often wrong than those of one sentence, and becomes the label of the
document's sentences. A second head is fitted to the labelled texts and to these sentences. The
result is the mean of both heads.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.corpus import Corpus
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import EncodedTexts
from bertsmith.errors import ConfigError, option
from bertsmith.finetuning.linear_features import FeatureSettings, LabelledTexts
from bertsmith.finetuning.linear_fit import CrossValidation, fit_weights, score_held_out
from bertsmith.model.model_folder import ModelFolder
from bertsmith.pretraining.counted_start import check_memory, count_vectors
from bertsmith.system.torch_modes import drawing_from
from bertsmith.tasks.inference import LoadedModel, compute_in_order
from bertsmith.tasks.linear_head import CorpusWeights, LinearHead
from bertsmith.tasks.logistic_regression import fit
from bertsmith.tasks.text_vectors import mean_vectors
from bertsmith.tasks.token_means import mean_of_tokens
from bertsmith.tokenization.tokenizer import Tokenizer

VECTOR_SIZE = 128
"""Size of the counted vectors."""
MAX_DOCUMENTS = 3000
"""Largest number of documents that the first head classifies; of more, evenly spaced ones."""
MAX_SENTENCES = 12_000
"""Largest number of sentences of these documents that the second head learns from."""
MIN_SENTENCE_TOKENS, MAX_SENTENCE_TOKENS = 4, 62
"""Length of a sentence without special tokens: shorter ones are left out, longer ones are cut."""
LABEL_WEIGHT = 3.0
"""Weight of a labelled text beside that of a sentence, which is 1."""
SENTENCE_STRENGTH = 1.0
"""The inverse of the second head's penalty."""


@dataclass(frozen=True)
class CorpusSentences:
    """Sentences of some documents.

    `documents`, int64 `[sentences]`, holds the document of each sentence, numbered from 0.
    """

    examples: EncodedExamples
    documents: NDArray[np.int64]


def open_unlabelled(path: Path, model: ModelFolder) -> Corpus:
    """Open the training documents of a corpus.

    Raises:
        CorpusError: there is no such corpus, or it is damaged.
        ConfigError: it has another vocabulary than the model, or there is too little memory.
    """
    corpus = Corpus.open(path, "train")
    if corpus.tokenizer_fingerprint != model.tokenizer.fingerprint:
        raise ConfigError(
            f"{path}: its vocabulary is not that of {model.path}. Build the corpus again, with "
            f"{option('tokenizer', model.path)}."
        )
    check_memory(corpus, option("corpus"), "")
    return corpus


def read_sentences(corpus: Corpus, tokenizer: Tokenizer, max_length: int) -> CorpusSentences:
    """Read the sentences of at most `MAX_DOCUMENTS` documents.

    Args:
        max_length: largest number of tokens of a row, with special tokens.

    Raises:
        ConfigError: no sentence has `MIN_SENTENCE_TOKENS` tokens.
    """
    max_tokens = min(MAX_SENTENCE_TOKENS, max_length - tokenizer.num_special_tokens(1))
    num_chosen = min(MAX_DOCUMENTS, corpus.num_documents)
    chosen = np.arange(num_chosen) * corpus.num_documents // max(num_chosen, 1)  # evenly spaced
    rows: list[tuple[NDArray[np.int32], NDArray[np.int32], int]] = []
    documents: list[int] = []
    for document in chosen:
        number = documents[-1] + 1 if documents else 0  # documents of short sentences get none
        first, end = corpus.document_starts[document : document + 2].tolist()
        starts = corpus.sentence_starts[first : end + 1].tolist()
        for start, stop in pairwise(starts):
            if stop - start >= MIN_SENTENCE_TOKENS:
                ids = corpus.token_ids(start, min(stop, start + max_tokens)).astype(np.int32)
                row = tokenizer.build_row([ids])
                rows.append((row.ids, row.type_ids, 0))
                documents.append(number)
    if not rows:
        raise ConfigError(
            f"{corpus.directory}: no sentence has {MIN_SENTENCE_TOKENS} tokens. Give a corpus of "
            f"texts like those to classify, or leave {option('corpus')} out."
        )
    return CorpusSentences(EncodedExamples.of_texts(EncodedTexts.of(rows)), np.array(documents))


def fit_with_corpus(
    texts: LabelledTexts,
    folds: Sequence[NDArray[np.int64]],
    corpus: Corpus,
    loaded: LoadedModel,
    seed: int,
) -> tuple[LinearHead, CrossValidation | None, int]:
    """Fit the mean of two heads, the second of which also learns from sentences of the corpus.

    Args:
        folds: the indices that each fold of the first head's cross-validation holds out.

    Returns:
        The head; the scores of the first head in a cross-validation, if there was one; and the
        number of sentences that the second one learned from.
    """
    rng = np.random.default_rng(seed)
    with drawing_from(seed):
        counted = count_vectors(corpus, VECTOR_SIZE)[0].numpy()
    sentences = read_sentences(corpus, loaded.tokenizer, loaded.max_length)
    tokenizer = loaded.tokenizer

    def join_vectors(
        vectors: NDArray[np.float32], examples: EncodedExamples
    ) -> NDArray[np.float32]:
        means = mean_of_tokens(examples.rows, counted, tokenizer.special_ids)
        return np.concatenate([vectors, examples.mean_over_rows(means)], axis=1)

    vectors = compute_in_order(loaded.model, sentences.examples.rows, mean_vectors)
    sentence_vectors = join_vectors(vectors, sentences.examples)
    chosen = np.sort(rng.permutation(len(sentence_vectors))[:MAX_SENTENCES])

    part_sizes = (texts.vectors.shape[1], counted.shape[1])
    texts = replace(texts, vectors=join_vectors(texts.vectors, texts.examples))
    settings = FeatureSettings.of(texts, tokenizer, part_sizes)
    fitted = fit_weights(texts, folds, settings, is_multi_label=False)
    first = fitted.extractor.head_of(fitted.weights)
    scores = None
    if fitted.held_out is not None:
        scores = score_held_out(fitted.held_out, is_multi_label=False)

    sentence_features = fitted.extractor.extract(sentence_vectors, sentences.examples)
    sentence_logits = fitted.weights.logits(sentence_features)
    targets = label_documents(sentence_logits, sentences.documents, texts.targets.mean(0))
    texts_and_sentences = LabelledTexts(
        EncodedExamples.concat([texts.examples, sentences.examples.select(chosen.tolist())]),
        np.concatenate([texts.vectors, sentence_vectors[chosen]]),
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
    return join_heads(first, extractor.head_of(weights), counted), scores, len(chosen)


def join_heads(first: LinearHead, second: LinearHead, counted: NDArray[np.float32]) -> LinearHead:
    """Join two heads to one, whose logits are the mean of theirs.

    Each head reads a vector of the encoder and a mean of counted vectors, side by side. The product
    of the `counted` vectors, fp32 `[vocabulary, counted]`, and their weights is one weight for each
    token and label, so that a prediction needs no counted vectors.
    """
    vector_weights = (first.vector_weights + second.vector_weights) * np.float32(0.5)
    hidden_size = len(vector_weights) - counted.shape[1]
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
    """Return probabilities of each document's label, fp32 `[documents, labels]`.

    The logits of a document are the means over its sentences. The logits of each label are
    standardized over all documents, since a head often prefers one label in texts that are unlike
    those that it was fitted to. Then the logarithm of the label's share is added.

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
    deviation = logits.std(0)
    logits = (logits - np.median(logits, axis=0)) / np.where(deviation > 0, deviation, 1)
    logits += np.log(np.maximum(shares, np.finfo(np.float32).tiny))
    # The softmax; less the largest logit, so that no exponential overflows.
    exponentials = np.exp(logits - logits.max(1, keepdims=True))
    probabilities = exponentials / exponentials.sum(1, keepdims=True)
    return probabilities.astype(np.float32)


def _weigh_texts(texts: LabelledTexts, num_sentences: int) -> NDArray[np.float32]:
    """Return the factors of the losses, fp32 `[rows, 1]`: of labelled texts, then of sentences."""
    num_texts = len(texts.targets)
    weights = np.ones((num_texts + num_sentences, 1), np.float32)
    weights[:num_texts] = LABEL_WEIGHT
    if texts.importance is not None:
        weights[:num_texts] *= texts.importance
    return weights

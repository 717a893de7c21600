"""Texts without labels that a linear head learns from, read from a corpus once.

`finetune classify --head auto` fits the linear head several times, to parts of the labelled texts.
What does not depend on the labelled texts is computed here, once. This is the *counted vector* of
each token, which comes from the counts of its neighbours in the corpus, and the sentences of some
documents with their vectors.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.corpus import Corpus
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import EncodedTexts
from bertsmith.errors import ConfigError, option
from bertsmith.model.model_folder import ModelFolder
from bertsmith.pretraining.counted_start import check_memory, count_vectors
from bertsmith.system.torch_modes import drawing_from
from bertsmith.tasks.inference import LoadedModel, compute_in_order
from bertsmith.tasks.text_vectors import mean_vectors
from bertsmith.tasks.token_means import mean_of_tokens
from bertsmith.tokenization.tokenizer import Tokenizer

VECTOR_SIZE = 128
"""Size of the counted vectors."""
MAX_DOCUMENTS = 3000
"""Largest number of documents that are read. From a corpus with more, evenly spaced documents are
taken."""
MIN_SENTENCE_TOKENS, MAX_SENTENCE_TOKENS = 4, 62
"""Length of a sentence in tokens, without special tokens. Shorter ones are left out, longer ones
are cut."""


@dataclass(frozen=True)
class CorpusSentences:
    """Sentences of some documents.

    `documents`, int64 `[sentences]`, holds the document of each sentence, numbered from 0.
    """

    examples: EncodedExamples
    documents: NDArray[np.int64]


@dataclass(frozen=True)
class UnlabelledTexts:
    """Sentences of a corpus with their vectors, and the vectors of tokens counted in the corpus.

    Shapes: `token_vectors` fp32 `[vocabulary, counted]`; `vectors` fp32
    `[sentences, hidden + counted]`: the encoder's vector of each sentence, and beside it the mean
    of the counted vectors of its tokens.
    """

    sentences: CorpusSentences
    token_vectors: NDArray[np.float32]
    vectors: NDArray[np.float32]

    @classmethod
    def read(cls, corpus: Corpus, loaded: LoadedModel, seed: int) -> Self:
        """Count the vectors of tokens, read the sentences, and compute their vectors.

        Args:
            loaded: the encoder of the linear head.
            seed: the same seed gives the same vectors of tokens.

        Raises:
            ConfigError: no sentence has `MIN_SENTENCE_TOKENS` tokens.
        """
        with drawing_from(seed):
            token_vectors = count_vectors(corpus, VECTOR_SIZE)[0].numpy()  # [1] has the counts
        tokenizer = loaded.tokenizer
        sentences = read_sentences(corpus, tokenizer, loaded.max_length)
        of_encoder = compute_in_order(loaded.model, sentences.examples.rows, mean_vectors)
        vectors = join_vectors(of_encoder, sentences.examples, token_vectors, tokenizer)
        return cls(sentences, token_vectors, vectors)


def join_vectors(
    vectors: NDArray[np.float32],
    examples: EncodedExamples,
    token_vectors: NDArray[np.float32],
    tokenizer: Tokenizer,
) -> NDArray[np.float32]:
    """Put the means of the counted vectors of tokens beside the vectors of an encoder.

    Shapes: `vectors` fp32 `[texts, hidden]`, `token_vectors` fp32 `[vocabulary, counted]`; the
    result fp32 `[texts, hidden + counted]`.
    """
    means = mean_of_tokens(examples.rows, token_vectors, tokenizer.special_ids)
    return np.concatenate([vectors, examples.mean_over_rows(means)], axis=1)


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
    # "": the message names no choice but a smaller vocabulary.
    check_memory(corpus, purpose=option("corpus"), alternative="")
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
    # Token ids and segment ids of each sentence, and 0: that tokens were cut off is not counted.
    rows: list[tuple[NDArray[np.int32], NDArray[np.int32], int]] = []
    documents: list[int] = []
    for document in chosen:
        # Documents with only short sentences get no number, so that numbers have no gaps.
        number = documents[-1] + 1 if documents else 0
        # `document_starts` are numbers of sentences, and `sentence_starts` offsets of tokens.
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

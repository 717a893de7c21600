"""The counted start: what is counted is right, and a model begins with it."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from bertsmith.data.corpus import CorpusSettings, build_corpus
from bertsmith.data.shards import Corpus
from bertsmith.errors import ConfigError
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.heads import MaskedLMHead
from bertsmith.pretraining import counted_start
from bertsmith.pretraining.counted_start import (
    WINDOW,
    count_neighbours,
    factorize,
    initialize_counted,
    positive_pmi,
)
from bertsmith.pretraining.token_counts import token_counts


def documents_of(corpus):
    bounds = corpus.sentence_starts[corpus.document_starts].tolist()
    return [corpus.token_ids(start, end).tolist() for start, end in pairwise(bounds)]


def test_neighbours_are_counted_inside_documents(corpus_dir):
    corpus = Corpus.open(corpus_dir)
    expected = np.zeros((corpus.vocab_size, corpus.vocab_size))
    for ids in documents_of(corpus):
        for i, word in enumerate(ids):
            for j in range(max(0, i - WINDOW), min(len(ids), i + WINDOW + 1)):
                expected[word, ids[j]] += i != j
    counts = token_counts(corpus)
    by_frequency = np.argsort(-counts, kind="stable")
    near = count_neighbours(corpus, counts)
    np.testing.assert_array_equal(near.numpy(), expected[:, by_frequency])


def test_a_large_vocabulary_has_fewer_contexts_and_a_huge_one_is_refused(corpus_dir, monkeypatch):
    corpus = Corpus.open(corpus_dir)
    counts = token_counts(corpus)
    everything = count_neighbours(corpus, counts)
    monkeypatch.setattr(counted_start, "MAX_COUNTS", 20 * corpus.vocab_size)
    with pytest.raises(ConfigError, match=r"model\.word_initializer.*--word-initializer normal"):
        count_neighbours(corpus, counts)
    monkeypatch.setattr(counted_start, "MIN_CONTEXTS", 20)
    torch.testing.assert_close(count_neighbours(corpus, counts), everything[:, :20])


def test_positive_pmi_is_that_of_the_definition():
    counts = torch.tensor([[8.0, 2.0, 0.0], [1.0, 5.0, 4.0]])
    share = counts / counts.sum()
    contexts = counts.sum(0) ** 0.75
    chance = share.sum(1, keepdim=True) * contexts / contexts.sum()
    expected = (share / chance).log().clamp(min=0)
    torch.testing.assert_close(positive_pmi(counts.clone()), expected)


def test_vectors_reproduce_a_matrix_of_their_rank():
    torch.manual_seed(0)
    half = torch.randn(40, 6)
    matrix = half @ half.T
    vectors = factorize(matrix.clone(), 6)
    torch.testing.assert_close(vectors @ vectors.T, matrix, atol=1e-3, rtol=1e-3)
    assert factorize(torch.rand(5, 5), 9).shape == (5, 9)


def test_a_model_begins_with_frequencies_and_likeness(tmp_path, corpus_dir):
    """Two words that are used alike are alike from the start, unlike those used otherwise."""
    tokenizer = Corpus.open(corpus_dir).tokenizer()
    rng = np.random.default_rng(0)
    groups = [("baba", "ceba"), ("diba", "foba"), ("guba", "haba")]
    text = [" ".join(rng.choice(groups[i % 3], 6)) + "." for i in range(300)]
    source = tmp_path / "text.txt"
    source.write_text("\n\n".join(text), encoding="utf-8")
    build_corpus([source], tokenizer, tmp_path / "built", CorpusSettings(held_out=0.0))
    corpus = Corpus.open(tmp_path / "built")
    config = BertConfig(corpus.vocab_size, 16, 1, 1, 16, initializer_range=0.05)
    torch.manual_seed(0)
    model = BertModel(config, {"masked_lm": MaskedLMHead(config)})
    before = model.embeddings.word.weight.detach().clone()
    initialize_counted(model, corpus)
    counts = torch.from_numpy(token_counts(corpus) + 1.0)
    torch.testing.assert_close(
        model.heads["masked_lm"].bias.exp(), (counts / counts.sum()).float(), atol=1e-6, rtol=1e-5
    )
    words, seen = model.embeddings.word.weight.detach(), counts > 1
    assert words[seen].std().item() == pytest.approx(0.05, rel=1e-3)
    torch.testing.assert_close(words[~seen], before[~seen])
    likeness = torch.nn.functional.cosine_similarity(words[:, None], words[None], dim=-1)
    ids = [tokenizer.encode_ids(word)[0] for group in groups for word in group]
    for first, second, other in ((0, 1, 2), (2, 3, 4), (4, 5, 0)):
        assert likeness[ids[first], ids[second]] > 0.8 > likeness[ids[first], ids[other]]


def test_a_text_of_one_word_leaves_the_random_vectors(tmp_path, corpus_dir):
    tokenizer = Corpus.open(corpus_dir).tokenizer()
    (tmp_path / "text.txt").write_text("baba baba baba baba", encoding="utf-8")
    build_corpus(
        [tmp_path / "text.txt"], tokenizer, tmp_path / "built", CorpusSettings(held_out=0.0)
    )
    corpus = Corpus.open(tmp_path / "built")
    config = BertConfig(corpus.vocab_size, 16, 1, 1, 16)
    model = BertModel(config, {"masked_lm": MaskedLMHead(config)})
    before = model.embeddings.word.weight.detach().clone()
    initialize_counted(model, corpus)
    assert torch.equal(model.embeddings.word.weight.detach(), before)

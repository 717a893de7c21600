"""The counted start: what is counted is right, and a model begins with it."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from refusals import refuses
from tiny_runs import small_corpus

from bertsmith.data.corpus import Corpus
from bertsmith.errors import ConfigError
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.heads import MaskedLMHead
from bertsmith.pretraining import counted_start
from bertsmith.pretraining.counted_start import (
    WINDOW,
    PairCounts,
    count_neighbours,
    initialize_counted,
    positive_pmi,
)
from bertsmith.pretraining.token_counts import count_sampled_tokens


def new_model(corpus):
    config = BertConfig(corpus.vocab_size, 16, 1, 1, 16, initializer_range=0.05)
    torch.manual_seed(0)
    model = BertModel(config, {"masked_lm": MaskedLMHead(config)})
    return model, model.embeddings.word.weight.detach().clone()


def test_neighbours_are_counted_inside_documents(corpus_dir, monkeypatch):
    corpus = Corpus.open(corpus_dir)
    expected = np.zeros((corpus.vocab_size, corpus.vocab_size))
    bounds = corpus.sentence_starts[corpus.document_starts].tolist()
    for ids in (corpus.token_ids(*ends).tolist() for ends in pairwise(bounds)):
        for i, word in enumerate(ids):
            for j in range(max(0, i - WINDOW), min(len(ids), i + WINDOW + 1)):
                expected[word, ids[j]] += i != j
    for at_once in (counted_start.KEYS_AT_ONCE, 1):
        monkeypatch.setattr(counted_start, "KEYS_AT_ONCE", at_once)
        pairs = count_neighbours(corpus)
        assert (np.diff(pairs.keys) > 0).all()
        found = np.zeros_like(expected)
        np.add.at(found, np.divmod(pairs.keys, corpus.vocab_size), pairs.counts)
        np.testing.assert_array_equal(found + found.T, expected)  # a pair has one order there


@pytest.mark.parametrize("most_dense", [3, 2])
def test_positive_pmi_is_that_of_the_definition(monkeypatch, most_dense):
    """With contexts smoothed by a power of 0.75 (Levy et al. 2015)."""
    monkeypatch.setattr(counted_start, "MAX_DENSE", most_dense)
    counts = torch.tensor([[8.0, 2.0, 0.0], [2.0, 6.0, 4.0], [0.0, 4.0, 0.0]])
    share = counts / counts.sum()
    contexts = counts.sum(0) ** 0.75
    chance = share.sum(1, keepdim=True) * contexts / contexts.sum()
    expected = (share / chance).log().clamp(min=0)
    in_one_order = PairCounts(keys=np.array([0, 1, 4, 5]), counts=np.array([4, 2, 3, 4]))
    matrix = positive_pmi(in_one_order, 3)
    assert (matrix.rows.layout == torch.strided) == (most_dense == 3)
    torch.testing.assert_close(matrix.rows.to_dense(), expected)
    torch.testing.assert_close(matrix.columns.to_dense(), expected.T)


@pytest.mark.parametrize("is_dense", [True, False])
def test_a_model_begins_with_frequencies_and_likeness(tmp_path, corpus_dir, is_dense, monkeypatch):
    """Two words that are used alike are alike from the start, unlike those used otherwise."""
    monkeypatch.setattr(counted_start, "MAX_DENSE", 2**14 if is_dense else 0)
    rng = np.random.default_rng(0)
    groups = [("baba", "ceba"), ("diba", "foba"), ("guba", "haba")]
    text = [" ".join(rng.choice(groups[i % 3], 6)) + "." for i in range(300)]
    tokenizer = Corpus.open(corpus_dir).tokenizer()
    corpus = Corpus.open(small_corpus(tmp_path / "corpus", tokenizer, text))
    model, before = new_model(corpus)
    initialize_counted(model, corpus)
    counts = torch.from_numpy(count_sampled_tokens(corpus) + 1.0)
    torch.testing.assert_close(
        model.heads["masked_lm"].bias.exp(), (counts / counts.sum()).float(), atol=1e-6, rtol=1e-5
    )
    words, seen = model.embeddings.word.weight.detach(), counts > 1
    assert words[seen].std().item() == pytest.approx(0.05, rel=1e-3)
    torch.testing.assert_close(words[~seen], before[~seen])
    likeness = torch.nn.functional.cosine_similarity(words[:, None], words[None], dim=-1)
    ids = [corpus.tokenizer().encode_ids(word)[0] for group in groups for word in group]
    for first, second, other in ((0, 1, 2), (2, 3, 4), (4, 5, 0)):
        assert likeness[ids[first], ids[second]] > 0.8 > likeness[ids[first], ids[other]]


def test_pairs_of_a_large_vocabulary_must_fit_into_memory(corpus_dir, monkeypatch):
    corpus = Corpus.open(corpus_dir)
    monkeypatch.setattr(counted_start, "BYTES_PER_PAIR", 2**50)
    initialize_counted(new_model(corpus)[0], corpus)  # a small one takes little in any text
    monkeypatch.setattr(counted_start, "MAX_DENSE", corpus.vocab_size - 1)
    parts = "--word-initializer counted: ", " 150 ", " normal", " 149 "
    with refuses(ConfigError, *parts, worded=False):  # the machine's memory
        initialize_counted(new_model(corpus)[0], corpus)

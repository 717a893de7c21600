"""Contrastive pairs: two rows of one document, partners in the same batch, the loss of choosing."""

import math
from itertools import pairwise

import pytest
import torch
from refusals import refuses
from small_workers import small_model
from tiny_runs import small_corpus

from bertsmith.data.corpus import Corpus
from bertsmith.errors import CorpusError
from bertsmith.pretraining import row_source
from bertsmith.pretraining.contrastive import TEMPERATURE
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.settings import PretrainingSettings

PAIRS = PretrainingSettings(max_length=37, pairs="contrastive")


def objective(corpus_dir, settings=PAIRS, micro_batch_size=None):
    train, held_out = Corpus.open(corpus_dir), Corpus.open(corpus_dir, "held_out")
    sizes = {"batch_size": 14, "micro_batch_size": micro_batch_size, "eval_rows": 30}
    return Pretraining(train, held_out, settings, **sizes)


def test_partners_are_of_one_document_and_the_loss_is_that_of_choosing_them(
    corpus_dir, monkeypatch
):
    task = objective(corpus_dir, micro_batch_size=5)
    corpus, model = task.train.corpus, small_model("masked_lm", max_position_embeddings=64).eval()
    bounds = corpus.sentence_starts[corpus.document_starts].tolist()
    documents = [tuple(corpus.token_ids(*ends).tolist()) for ends in pairwise(bounds)]
    batches = task.micro_batches(3)
    assert [batch.num_sequences for batch in batches] == [6, 8]
    monkeypatch.setattr(row_source, "EVALUATION_TOKENS", 2 * PAIRS.max_length)
    held_out = task.held_out_batches(model)
    assert [batch.num_sequences for batch in held_out] == 6 * [4] + [6]
    for batch in batches:
        ids = batch.input_ids.clone()
        ids[batch.targets["masked_positions"]] = batch.targets["masked_labels"]
        texts = [tuple(row.tolist()[1:-1]) for row in ids.split(list(batch.lengths))]
        partners = batch.targets["contrastive_labels"].tolist()
        assert [partners[partner] for partner in partners] == list(range(len(texts)))
        for row, partner in enumerate(partners):
            joined = (texts[row] + texts[partner], texts[partner] + texts[row])
            assert any(is_inside(each, document) for document in documents for each in joined)
        vectors = [part.mean(0) for part in model.encode(batch).split(list(batch.lengths))]
        unit = torch.nn.functional.normalize(torch.stack(vectors), dim=-1)
        expected = 0.0
        for row, partner in enumerate(partners):
            others = [x for x in range(len(texts)) if x != row]
            scores = (unit[others] @ unit[row] / TEMPERATURE).softmax(0)
            expected -= math.log(scores[others.index(partner)].item())
        term = task.losses(model, batch)["contrast"]
        assert term.sum.item() == pytest.approx(expected, rel=1e-3)
        assert term.count == len(partners) == task.counts(batch)["contrast"]


def is_inside(part, whole):
    starts = (i for i, token in enumerate(whole) if token == part[0])
    return any(whole[i : i + len(part)] == part for i in starts)


def test_documents_of_one_sentence_are_rows_without_a_partner(tmp_path, corpus_dir):
    tokenizer = Corpus.open(corpus_dir).tokenizer()
    alone = small_corpus(tmp_path / "alone", tokenizer, ["Baba ceba.", "Diba foba guba."])
    with refuses(CorpusError, f"{alone}: ", "(2)", "--pairs contrastive", "--pairs none"):
        objective(alone)
    texts = ["Baba ceba.", "Baba.", "Diba foba. Guba haba."]
    task = objective(small_corpus(tmp_path / "mixed", tokenizer, texts))
    model, counted = small_model("masked_lm", max_position_embeddings=64), 0
    for step in range(1, 6):
        (batch,) = task.micro_batches(step)
        assert batch.num_sequences == 14
        rows = batch.targets["contrastive_rows"].tolist()
        assert all(batch.lengths[row] in (5, 6) for row in rows)
        assert task.losses(model, batch)["contrast"].count == len(rows)
        counted += len(rows)
    assert 0 < counted < 5 * 14

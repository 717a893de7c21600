"""A GPT learns the next token of each token of a document, and that only documents end."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from bertsmith.data.corpus import Corpus
from bertsmith.lineage.causal_lm import CausalLanguageModelling
from bertsmith.lineage.gpt import Gpt, GptConfig

LENGTH = 17


def build_objective(corpus_dir, **sizes):
    train, held_out = Corpus.open(corpus_dir), Corpus.open(corpus_dir, "held_out")
    settings = {"batch_size": 11, "micro_batch_size": 4, "seed": 3, "eval_rows": 7}
    return CausalLanguageModelling(train, held_out, LENGTH, **settings | sizes)


@pytest.fixture
def objective(corpus_dir):
    return build_objective(corpus_dir)


@pytest.fixture
def model(objective):
    torch.manual_seed(0)
    size = objective.train.corpus.vocab_size
    return Gpt(GptConfig(size, n_embd=36, n_layer=2, n_head=3, n_positions=LENGTH)).eval()


def rows_of(batch):
    return [row.tolist() for row in batch.input_ids.split(batch.lengths)]


def test_a_row_is_a_window_of_one_document_and_ends_where_the_document_ends(objective):
    corpus = objective.train.corpus
    tokenizer = corpus.tokenizer()
    starts = corpus.sentence_starts[corpus.document_starts]
    documents = [corpus.token_ids(int(first), int(end)).tolist() for first, end in pairwise(starts)]
    num_ended = num_rows = 0
    for step in range(1, 30):
        for batch in objective.micro_batches(step):
            for row in rows_of(batch):
                assert row[0] == tokenizer.cls_id and len(row) <= LENGTH
                is_ended = row[-1] == tokenizer.sep_id
                text = row[1 : len(row) - is_ended]
                assert tokenizer.sep_id not in text
                is_end_of_one = any(document[-len(text) :] == text for document in documents)
                is_part_of_one = any(
                    document[place : place + len(text)] == text
                    for document in documents
                    for place in range(len(document))
                )
                assert is_end_of_one if is_ended else is_part_of_one
                num_ended, num_rows = num_ended + is_ended, num_rows + 1
    assert 0.05 * num_rows < num_ended < 0.8 * num_rows


def test_each_token_but_the_last_predicts_the_next(objective):
    batch = objective.micro_batch(5, 1)
    rows = rows_of(batch)
    targets = batch.targets
    assert targets["labels"].tolist() == [token for row in rows for token in row[1:]]
    read = batch.input_ids[targets["positions"]].tolist()
    assert read == [token for row in rows for token in row[:-1]]
    assert objective.counts(batch) == {"lm": sum(len(row) - 1 for row in rows)}


def test_the_loss_is_that_of_each_row_alone(objective, model):
    batch = objective.micro_batch(2, 0)
    term = objective.losses(model, batch)["lm"]
    expected, correct = 0.0, 0
    for row in rows_of(batch):
        ids = torch.tensor([row])
        output = model(ids, labels=ids)
        expected += output.loss.item() * (len(row) - 1)
        correct += int((output.logits[0, :-1].argmax(-1) == ids[0, 1:]).sum())
    assert term.sum.item() == pytest.approx(expected, rel=1e-5)
    assert int(term.correct) == correct


def test_rows_do_not_depend_on_how_a_step_is_divided(corpus_dir, objective):
    whole = build_objective(corpus_dir, micro_batch_size=11).micro_batches(4)
    divided = objective.micro_batches(4)
    assert [len(batches) for batches in (whole, divided)] == [1, 3]
    by_place = [
        dict(
            pair
            for batch in batches
            for pair in zip(batch.step_indices, rows_of(batch), strict=True)
        )
        for batches in (whole, divided)
    ]
    assert by_place[0] == by_place[1] and sorted(by_place[0]) == list(range(11))
    assert by_place[0] != {
        place: row
        for batch in objective.micro_batches(5)
        for place, row in zip(batch.step_indices, rows_of(batch), strict=True)
    }


def test_figures_are_means_over_the_eval_rows(objective, model):
    with torch.no_grad():
        figures = objective.evaluate(model)
        losses = []
        for batch in objective.held_out_batches(model):
            hidden = model.encode(batch)[batch.targets["positions"]]
            logits = model.compute_logits(hidden)
            losses.append(F.cross_entropy(logits, batch.targets["labels"], reduction="none"))
    loss = float(torch.cat(losses).mean())
    assert figures["held_out_loss"] == figures["held_out_lm_loss"] == pytest.approx(loss, rel=1e-5)
    split = objective.held_out.corpus.manifest.splits["held_out"]
    labels = torch.cat([batch.targets["labels"] for batch in objective.held_out_batches(model)])
    num_ends = int((labels == objective.held_out.corpus.tokenizer().sep_id).sum())
    assert 0 < num_ends < len(labels) / 4
    loss_of_text = loss * len(labels) / (len(labels) - num_ends)
    bits = loss_of_text / math.log(2) * split.tokens / split.characters  # the text is ASCII
    assert figures["held_out_lm_bits_per_byte"] == pytest.approx(bits, rel=1e-5)
    parts = [objective.evaluate_part(model, part, 3) for part in range(3)]
    assert objective.combine(parts) == pytest.approx(figures)


def test_an_epoch_reads_about_each_token_once(objective):
    windows = objective.train
    spans = windows.locate(0, windows.rows_per_epoch)
    counts = np.zeros(windows.corpus.num_tokens, dtype=int)
    for start, end in zip(spans.starts, spans.ends, strict=True):
        counts[start:end] += 1
    assert abs(counts.mean() - 1) < 0.1 and (counts > 0).mean() > 0.5


def test_without_eval_text_nothing_is_measured(corpus_dir, model):
    train = Corpus.open(corpus_dir)
    held_out = Corpus.open(corpus_dir, "held_out")
    held_out.num_documents = 0
    objective = CausalLanguageModelling(train, held_out, LENGTH, batch_size=4)
    assert objective.evaluate(model) == {}
    assert "held_out_tokens" not in objective.facts()

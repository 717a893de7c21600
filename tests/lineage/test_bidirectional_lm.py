"""An ELMo learns the next token and the one before, and where documents begin and end."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from bertsmith.data.batches import pack
from bertsmith.data.corpus import Corpus
from bertsmith.lineage.bidirectional_lm import BidirectionalLanguageModelling
from bertsmith.lineage.elmo import Elmo, ElmoConfig

LENGTH = 17


def build_objective(corpus_dir, **sizes):
    train, held_out = Corpus.open(corpus_dir), Corpus.open(corpus_dir, "held_out")
    settings = {"batch_size": 11, "micro_batch_size": 4, "seed": 3, "eval_rows": 7}
    return BidirectionalLanguageModelling(train, held_out, LENGTH, **settings | sizes)


@pytest.fixture
def objective(corpus_dir):
    return build_objective(corpus_dir)


@pytest.fixture
def model(objective):
    torch.manual_seed(0)
    tokenizer = objective.train.corpus.tokenizer()
    filters = ((1, 3), (2, 5), (3, 7))
    config = ElmoConfig(tokenizer.vocab_size, 13, 2, 19, filters, character_size=4)
    model = Elmo(config)
    model.set_characters(tokenizer)
    return model.eval()


def rows_of(batch):
    return [row.tolist() for row in batch.input_ids.split(batch.lengths)]


def split_targets(batch, name):
    """Return each row's places that predict, counted in the row, with their labels."""
    positions, labels = (
        batch.targets[f"{name}_{kind}"].tolist() for kind in ("positions", "labels")
    )
    ends = torch.tensor(batch.lengths).cumsum(0).tolist()
    return [
        [(place - start, label) for place, label in zip(positions, labels, strict=True)
         if start <= place < end]
        for start, end in pairwise([0, *ends])
    ]  # fmt: skip


def test_both_sides_predict_the_text_and_its_ends_only_where_a_document_ends(objective):
    corpus = objective.train.corpus
    tokenizer = corpus.tokenizer()
    starts = corpus.sentence_starts[corpus.document_starts]
    documents = [corpus.token_ids(int(first), int(end)).tolist() for first, end in pairwise(starts)]
    counts = {"rows": 0, "starts": 0, "ends": 0}
    for step in range(1, 30):
        for batch in objective.micro_batches(step):
            rows = zip(
                rows_of(batch), split_targets(batch, "forward"), split_targets(batch, "backward"),
                strict=True,
            )  # fmt: skip
            for row, forward, backward in rows:
                assert (row[0], row[-1]) == (tokenizer.cls_id, tokenizer.sep_id)
                text = row[1:-1]
                assert len(row) <= LENGTH and not {tokenizer.cls_id, tokenizer.sep_id} & {*text}
                has_end = forward[-1][1] == tokenizer.sep_id
                has_start = backward[0][1] == tokenizer.cls_id
                assert forward == list(enumerate(row[1 : len(row) - 1 + has_end]))
                first = 1 if has_start else 2
                assert backward == list(enumerate(row[first - 1 : -1], start=first))
                assert not has_end or any(each[-len(text) :] == text for each in documents)
                assert not has_start or any(each[: len(text)] == text for each in documents)
                counts["rows"] += 1
                counts["starts"] += has_start
                counts["ends"] += has_end
    assert 0.05 * counts["rows"] < min(counts["starts"], counts["ends"])
    assert max(counts["starts"], counts["ends"]) < 0.8 * counts["rows"]


def log_probs_alone(model, row):
    """Return log-probabilities of all tokens, [tokens, vocabulary] each way, of one row alone."""
    hidden = model.encode(pack([np.array(row)]))
    return [F.log_softmax(model.compute_logits(each), -1) for each in hidden]


def test_the_loss_is_that_of_each_row_alone(objective, model):
    batch = objective.micro_batch(2, 0)
    terms = objective.losses(model, batch)
    assert objective.counts(batch) == {name: term.count for name, term in terms.items()}
    assert [term.weight for term in terms.values()] == [0.5, 0.5]
    for number, name in enumerate(("forward", "backward")):
        expected, correct = 0.0, 0
        for row, targets in zip(rows_of(batch), split_targets(batch, name), strict=True):
            log_probs = log_probs_alone(model, row)[number]
            expected -= sum(log_probs[place, label].item() for place, label in targets)
            correct += sum(int(log_probs[place].argmax()) == label for place, label in targets)
        assert terms[name].sum.item() == pytest.approx(expected, rel=1e-5)
        assert int(terms[name].correct) == correct


def test_rows_do_not_depend_on_how_a_step_is_divided(corpus_dir, objective):
    whole = build_objective(corpus_dir, micro_batch_size=11).micro_batches(4)
    divided = objective.micro_batches(4)
    by_place = [
        {
            place: (row, forward, backward)
            for batch in batches
            for place, row, forward, backward in zip(
                batch.step_indices,
                rows_of(batch),
                split_targets(batch, "forward"),
                split_targets(batch, "backward"),
                strict=True,
            )
        }
        for batches in (whole, divided)
    ]
    assert by_place[0] == by_place[1] and sorted(by_place[0]) == list(range(11))


def test_figures_of_both_ways_and_their_mean(objective, model):
    with torch.no_grad():
        figures = objective.evaluate(model)
        losses = {
            name: float(
                sum(objective.losses(model, batch)[name].sum for batch in held_out)
                / sum(objective.counts(batch)[name] for batch in held_out)
            )
            for held_out in [list(objective.held_out_batches(model))]
            for name in ("forward", "backward")
        }
    split = objective.held_out.corpus.manifest.splits["held_out"]
    tokenizer = objective.held_out.corpus.tokenizer()
    for name, end_id in (("forward", tokenizer.sep_id), ("backward", tokenizer.cls_id)):
        loss = losses[name]
        assert figures[f"held_out_{name}_loss"] == pytest.approx(loss, rel=1e-5)
        assert figures[f"held_out_{name}_perplexity"] == pytest.approx(math.exp(loss), rel=1e-4)
        batches = objective.held_out_batches(model)
        labels = torch.cat([batch.targets[f"{name}_labels"] for batch in batches])
        num_ends = int((labels == end_id).sum())
        assert 0 < num_ends < len(labels) / 4
        of_text = loss * len(labels) / (len(labels) - num_ends)
        bits = of_text / math.log(2) * split.tokens / split.characters  # the text is ASCII
        assert figures[f"held_out_{name}_bits_per_byte"] == pytest.approx(bits, rel=1e-5)
    mean = sum(losses.values()) / 2
    assert figures["held_out_loss"] == pytest.approx(mean, rel=1e-5)
    assert figures["held_out_perplexity"] == pytest.approx(math.exp(mean), rel=1e-4)
    parts = [objective.evaluate_part(model, part, 3) for part in range(3)]
    assert objective.combine(parts) == pytest.approx(figures, rel=1e-6)


def test_the_perplexity_of_a_model_that_has_diverged_is_a_number(objective, model):
    with torch.no_grad():
        model.softmax.weight.mul_(1e6)
        figures = objective.evaluate(model)
    assert figures["held_out_loss"] > 1000
    assert math.isfinite(figures["held_out_perplexity"])

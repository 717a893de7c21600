"""Replaced token detection: labels, losses and gradients equal to a plain computation."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
import transformers
from small_workers import check_same_as_one_process, small_config, small_workers

from bertsmith.data.corpus import Corpus
from bertsmith.model.families.electra import ElectraConfig
from bertsmith.model.saving import save_model
from bertsmith.pretraining.replaced_tokens import ReplacedTokens
from bertsmith.pretraining.settings import PretrainingSettings

SETTINGS = PretrainingSettings(31, objective="replaced_token", generator_size=0.5)


def objective(corpus_dir, settings=SETTINGS, micro_batch_size=None, seed=5):
    train, held_out = Corpus.open(corpus_dir), Corpus.open(corpus_dir, "held_out")
    sizes = {"batch_size": 12, "micro_batch_size": micro_batch_size, "eval_rows": 29}
    return ReplacedTokens(train, held_out, settings, seed=seed, **sizes)


def new_pair(task, dropout=0.0):
    torch.manual_seed(0)
    chances = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), dropout)
    config = small_config(ElectraConfig, embedding_size=13, initializer_range=0.1, **chances)
    return task.new_model(config)


def test_losses_and_gradients_equal_those_of_transformers(corpus_dir, tmp_path, monkeypatch):
    for name in ("MAX_LOGITS", "CACHED_BYTES"):  # so logits are computed and sampled in parts
        monkeypatch.setattr(f"bertsmith.model.masked_lm_loss.{name}", 5 * 150)
    weight = 7.0
    task = objective(corpus_dir, replace(SETTINGS, discriminator_weight=weight))
    model = new_pair(task)
    save_model(model, tmp_path)
    (batch,) = task.micro_batches(2)
    terms = task.losses(model, batch)
    counts = task.counts(batch)
    assert {name: term.count for name, term in terms.items()} == counts
    loss = sum(term.weight * term.sum / counts[name] for name, term in terms.items())
    assert isinstance(loss, torch.Tensor)
    loss.backward()

    generator = transformers.ElectraForMaskedLM.from_pretrained(tmp_path / "generator").train()
    discriminator = transformers.ElectraForPreTraining.from_pretrained(tmp_path).train()
    rows = list(batch.lengths)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones(n) for n in rows], batch_first=True)
    real = mask.bool()

    def pad(packed):
        return torch.nn.utils.rnn.pad_sequence(list(packed.split(rows)), batch_first=True)

    labels, positions = batch.targets["masked_labels"], batch.targets["masked_positions"]
    logits = generator(pad(batch.input_ids), mask).logits[real][positions]
    sums = logits.double().softmax(-1).cumsum(-1)
    draws = batch.targets["draws"].double()[:, None]
    assert len(draws) == len(draws.unique())
    samples = torch.searchsorted(sums, draws, right=True)[:, 0]
    ids = batch.input_ids.index_copy(0, positions, samples)
    is_replaced = torch.zeros(len(ids)).index_copy(0, positions, (samples != labels).float())
    told = discriminator(pad(ids), mask).logits[real]
    mlm = F.cross_entropy(logits, labels)
    rtd = F.binary_cross_entropy_with_logits(told, is_replaced)
    (mlm + weight * rtd).backward()

    found = {name: (term.sum / term.count).item() for name, term in terms.items()}
    assert found == pytest.approx({"mlm": mlm.item(), "rtd": rtd.item()}, abs=1e-5)
    right = ((told > 0) == (is_replaced > 0)).sum().item()
    assert terms["rtd"].correct.item() == right
    theirs = [m.electra.embeddings for m in (generator, discriminator)]
    for name, ours in (("word", "word_embeddings"), ("position", "position_embeddings"),
                       ("norm", "LayerNorm"), ("token_type", "token_type_embeddings")):  # fmt: skip
        expected = sum(getattr(each, ours).weight.grad for each in theirs)
        mine = getattr(model.embeddings, name).weight.grad
        torch.testing.assert_close(mine, expected, atol=1e-5, rtol=1e-4)
    for mine, other in ((model.generator, generator.electra), (model, discriminator.electra)):
        for ours, expected in (
            (mine.embeddings.project, other.embeddings_project),
            (mine.layers[1].feed_forward.up, other.encoder.layer[1].intermediate.dense),
        ):
            torch.testing.assert_close(ours.weight.grad, expected.weight.grad, atol=1e-5, rtol=1e-4)


def test_dividing_a_step_changes_no_sample(corpus_dir):
    whole, parts = objective(corpus_dir), objective(corpus_dir, micro_batch_size=5)
    model = new_pair(whole, 0.1).eval()

    def figures(task):
        terms = [task.losses(model, batch) for batch in task.micro_batches(3)]
        return [sum(getattr(term[name], what).item() for term in terms)
                for name in ("mlm", "rtd") for what in ("sum", "correct")]  # fmt: skip

    assert figures(parts) == pytest.approx(figures(whole), rel=1e-5)


def test_workers_do_what_one_process_would(corpus_dir):
    task = objective(corpus_dir, micro_batch_size=4)
    alone, together = (
        small_workers(task, 2, torch.bfloat16, new_pair(task, 0.1)) for _ in range(2)
    )
    check_same_as_one_process(alone, together)
    for model in (together.model, together.compute_model):  # what both share they share still
        assert model.embeddings.word is model.generator.embeddings.word


def test_evaluation_is_the_same_for_any_masking(corpus_dir):
    task = objective(corpus_dir)
    model, other = new_pair(task).eval(), replace(SETTINGS, masking="span", masking_rate=0.3)
    with torch.inference_mode():
        figures = task.evaluate(model)
        assert objective(corpus_dir, other).evaluate(model) == figures
        results = [task.evaluate_part(model, part, 3) for part in range(3)]
        assert task.combine(results) == figures
    mlm, rtd = figures["held_out_mlm_loss"], figures["held_out_rtd_loss"]
    assert figures["held_out_loss"] == pytest.approx(mlm + 50 * rtd)
    assert 0.1 < figures["held_out_rtd_replaced"] < 0.2

"""What only a GPU can show: the whole row at once, and steps that do not wait for it.

Without the packages of the test extra: `python -m pytest --noconftest tests/model/test_cuda.py`.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from bertsmith.data.batches import Batch, pack
from bertsmith.model import packed_view
from bertsmith.model.attention import SelfAttention
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads
from bertsmith.model.row_layout import RowLayout
from bertsmith.model.varlen import MAX_ERROR, try_varlen, varlen_trial
from bertsmith.training.workers.protocol import total_counts

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

CUDA = torch.device("cuda")
LENGTHS = (127, 127, 64, 31, 31, 30, 7, 1)
HIDDEN, HEADS = 192, 3


def distance(found, exact):
    return float((found.double() - exact.double()).norm() / exact.double().norm())


def attention():
    torch.manual_seed(0)
    module = SelfAttention(HIDDEN, HEADS, 0.0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.1)
    return module.to(CUDA)


def test_the_trial_finds_the_kernel_right():
    """Where torch has no kernel for the card, this fails, and says why: attention is by blocks."""
    trial = try_varlen(CUDA)
    assert 0 < trial.error <= MAX_ERROR and trial.has_dropout


@pytest.mark.parametrize("first_only", [False, True])
def test_the_whole_row_equals_blocks_and_the_explicit_path(first_only, monkeypatch):
    hidden = torch.randn(sum(LENGTHS), HIDDEN, device=CUDA)
    layout = RowLayout(LENGTHS, CUDA)
    picked = layout.pick_first_tokens() if first_only else None
    view = layout.view(picked=picked)
    module = attention().double()
    exact_hidden = hidden.double().requires_grad_()
    # Weights that somebody looks at take the explicit path.
    exact = module(exact_hidden, layout.view(), list)
    if picked is not None:
        exact = exact[picked.index]
    (exact_gradient,) = torch.autograd.grad(exact.square().sum(), exact_hidden)
    for dtype, limit in ((torch.float32, 1e-5), (torch.bfloat16, 2e-2)):
        module = attention().to(dtype)
        given = hidden.to(dtype).requires_grad_()
        found = module(given, view)
        (gradient,) = torch.autograd.grad(found.float().square().sum(), given)
        assert distance(found.detach(), exact.detach()) < limit
        assert distance(gradient, exact_gradient) < 2 * limit
    monkeypatch.setattr(packed_view, "varlen_pays", lambda *_: True)
    assert distance(module(given, view).detach(), exact.detach()) < 2e-2


def test_dropout_leaves_out_its_share_and_follows_the_seed(monkeypatch):
    if not varlen_trial(CUDA).has_dropout:
        pytest.skip("this torch has no dropout over whole rows")
    monkeypatch.setattr(packed_view, "varlen_pays", lambda *_: True)
    shape = (sum(LENGTHS), HEADS, HIDDEN // HEADS)
    query, key = torch.randn(2, *shape, device=CUDA).bfloat16()
    value, view = torch.ones_like(key), RowLayout(LENGTHS, CUDA).view()
    rows = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        rows.append(view.attend(query, key, value, dropout_prob=0.25))
    assert torch.equal(rows[0], rows[1])
    assert not torch.equal(rows[0], rows[2])
    assert abs(float(rows[0][: LENGTHS[0]].float().mean()) - 1) < 0.05
    lonely = rows[0][-1].float()  # a sequence of one token sees itself, or nothing
    kept = torch.isclose(lonely, torch.tensor(4 / 3, device=CUDA), rtol=1e-2)
    assert bool((kept | (lonely == 0)).all())


def drawn(lengths, seed):
    rng = np.random.default_rng(seed)
    batch = pack([rng.integers(5, 997, length) for length in lengths])
    positions = torch.arange(0, batch.num_tokens, 7)
    targets = {
        "masked_positions": positions,
        "masked_labels": batch.input_ids[positions] // 2,
        "next_sentence_rows": torch.arange(len(lengths)),
        "next_sentence_labels": torch.arange(len(lengths)) % 2,
    }
    return replace(batch, targets=targets)


class Rows:
    """The objective of prepared rows."""

    rows: Batch

    def num_micro_batches(self, step):
        return 1

    def micro_batch(self, step, index):
        return self.rows

    def counts(self, batch):
        return {"mlm": len(batch.targets["masked_labels"]), "nsp": batch.num_sequences}

    def losses(self, model, batch):
        from bertsmith.pretraining.objective import pretraining_losses

        return pretraining_losses(model, batch, "next_sentence")


def new_team(dtype, dropout, device=CUDA):
    from bertsmith.training.settings import OptimSettings
    from bertsmith.training.workers.local import LocalWorkers
    from bertsmith.training.workers.share import Plan

    torch.manual_seed(0)
    config = BertConfig(
        997, 128, 2, 2, 256, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout
    )
    model = BertModel(config, build_heads(config, ["masked_lm", "next_sentence"])).to(device)
    return LocalWorkers(model, dtype, Plan(Rows(), OptimSettings(learning_rate=1e-3), 3, 1))


def test_steps_on_a_gpu_and_on_a_cpu_come_to_the_same_weights():
    """In fp32 without dropout: the optimizer's step counts and divisor reach the device."""
    weights = []
    for device in (torch.device("cpu"), CUDA):
        team = new_team(torch.float32, 0.0, device)
        for step in range(1, 6):
            team.plan.objective.rows = drawn(LENGTHS, step)
            team.compute(step, total_counts(team.prepare(step)))
            norm = team.reduce_gradients()
            team.update(step, rate=1e-3, divisor=max(1.0, norm / 0.1))
        weights.append(team.arrays.weights.cpu())
    torch.testing.assert_close(weights[1], weights[0], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_gradients_and_update_never_wait_for_the_gpu(dropout):
    team = new_team(torch.bfloat16, dropout)
    team.plan.objective.rows = drawn(LENGTHS, 0)
    [share] = team._shares
    counts = total_counts(share.prepare(1))
    share.compute(1, counts)  # the trial of attention is over after this
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        share.prepare(2)
        share.compute(2, counts)
        share.sum_gradients()
        share.update(2, 1e-3, 2.0)
    finally:
        torch.cuda.set_sync_debug_mode("default")

"""The optimizer: decay spares vectors, fused equals plain, masters keep what bf16 would lose."""

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bertsmith.errors import ConfigError
from bertsmith.model.bert import BertConfig, BertModel
from bertsmith.model.heads import build_heads
from bertsmith.model.huggingface import their_names
from bertsmith.training.optim import (
    MasterWeights,
    Optimizer,
    OptimSettings,
    decay_groups,
    schedule,
)


def model() -> BertModel:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=31,
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=20,
        max_position_embeddings=17,
    )
    return BertModel(config, build_heads(config, ["masked_lm", "next_sentence"]))


def set_gradients(parameters: list[nn.Parameter], seed: int, scale: float = 1.0) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in parameters:
        parameter.grad = scale * torch.randn(parameter.shape, generator=generator)


def test_decay_spares_exactly_biases_and_layer_norms() -> None:
    bert = model()
    names = {param: name for name, param in bert.named_parameters()}
    decayed, spared = decay_groups(bert.parameters(), 0.01)
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.01, 0.0)
    assert len(decayed["params"]) + len(spared["params"]) == len(names)
    for group, expected in ((decayed, False), (spared, True)):
        for parameter in group["params"]:
            theirs = their_names(names[parameter])[0]
            assert (theirs.endswith(".bias") or "LayerNorm" in theirs) == expected


@pytest.mark.parametrize("max_grad_norm", [0.0, 0.5])
def test_fused_equals_the_plain_formula(max_grad_norm: float) -> None:
    ours, plain = model(), model()
    settings = OptimSettings(
        learning_rate=1e-2, weight_decay=0.1, warmup_fraction=0.0, schedule="constant",
        max_grad_norm=max_grad_norm,
    )  # fmt: skip
    optimizer = Optimizer(MasterWeights(ours), settings)
    reference = torch.optim.AdamW(
        decay_groups(plain.parameters(), 0.1), lr=1e-2, eps=1e-6, foreach=False, fused=False
    )
    for step in range(5):
        for parameters in (list(ours.parameters()), list(plain.parameters())):
            set_gradients(parameters, step)
        norm = optimizer.clip()
        optimizer.step(0.5)
        if max_grad_norm:
            clipped = nn.utils.clip_grad_norm_(plain.parameters(), max_grad_norm)
            assert norm == pytest.approx(clipped.item())
        reference.step()
    for a, b in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_small_updates_add_up_in_the_masters() -> None:
    layer = nn.Linear(1, 1, bias=False)
    nn.init.ones_(layer.weight)
    weights = MasterWeights(layer, torch.bfloat16)
    optimizer = Optimizer(weights, OptimSettings(learning_rate=1e-4, weight_decay=0.0))
    for _ in range(50):
        weights.zero_gradients()
        weights.compute(torch.ones(1, 1, dtype=torch.bfloat16)).sum().backward()
        weights.gather_gradients()
        optimizer.step(0.1)
    assert weights.master.weight.dtype == torch.float32
    assert weights.master.weight.item() == pytest.approx(1 - 50e-4, rel=1e-4)
    assert weights.compute.weight.item() == pytest.approx(1 - 50e-4, abs=2e-3)
    assert weights.compute.weight.item() < 1


def test_gradients_of_micro_batches_add_up_in_fp32() -> None:
    layer = nn.Linear(3, 1, bias=False)
    weights = MasterWeights(layer, torch.bfloat16)
    first, second = torch.tensor([[256.0, 1, 2]]), torch.tensor([[1.0, 1, 2]])
    for rows in (first, second):
        weights.compute(rows.bfloat16()).sum().backward()
        weights.gather_gradients()
    # 257 has no bf16; fp32 keeps it.
    assert layer.weight.grad is not None
    assert layer.weight.grad.tolist() == [[257.0, 2.0, 4.0]]
    assert all(parameter.grad is None for parameter in weights.compute.parameters())


def test_in_fp32_the_master_computes() -> None:
    layer = nn.Linear(2, 2)
    weights = MasterWeights(layer)
    assert weights.compute is weights.master is layer


def test_state_survives_a_round_trip() -> None:
    first, second = model(), model()
    optimizer = Optimizer(MasterWeights(first), OptimSettings(learning_rate=1e-2))
    for step in range(3):
        set_gradients(list(first.parameters()), step)
        optimizer.step(0.5)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    again = Optimizer(MasterWeights(second), OptimSettings(learning_rate=1e-2))
    again.load_state_tensors(optimizer.state_tensors())
    for bert, adam in ((first, optimizer), (second, again)):
        set_gradients(list(bert.parameters()), 9)
        adam.step(0.6)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_norm_that_is_not_finite_is_told_and_clips_nothing() -> None:
    layer = nn.Linear(2, 2, bias=False)
    layer.weight.grad = torch.tensor([[math.inf, 1.0], [1.0, 1.0]])
    optimizer = Optimizer(MasterWeights(layer), OptimSettings(learning_rate=1.0))
    assert optimizer.clip() == math.inf
    assert layer.weight.grad.tolist() == [[math.inf, 1.0], [1.0, 1.0]]


@given(
    st.floats(0, 1),
    st.floats(0, 0.9),
    st.sampled_from(["linear", "cosine", "constant"]),
)
def test_the_schedule_rises_then_falls(progress: float, warmup: float, kind: str) -> None:
    settings = OptimSettings(warmup_fraction=warmup, schedule=kind)  # type: ignore[arg-type]
    share = schedule(progress, settings)
    assert 0 <= share <= 1
    later = schedule(progress + 1e-3, settings)
    if progress + 1e-3 < warmup:
        assert later > share
    elif progress > warmup and kind != "constant":
        assert later <= share
    assert schedule(1.0, settings) == (1.0 if kind == "constant" else 0.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 0.0}, r"optim\.learning_rate: found 0\.0; allowed is a number above 0"),
        ({"learning_rate": math.inf}, r"optim\.learning_rate: found inf"),
        ({"adam_beta2": 1.0}, r"optim\.adam_beta2: found 1\.0"),
        ({"warmup_fraction": 1.0}, r"optim\.warmup_fraction"),
        ({"max_grad_norm": -1.0}, r"optim\.max_grad_norm"),
    ],
)
def test_impossible_settings_are_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        OptimSettings(**change)  # type: ignore[arg-type]


def test_a_learning_rate_left_open_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"optim\.learning_rate: not given"):
        Optimizer(MasterWeights(nn.Linear(1, 1)), OptimSettings())

"""Muon: its updates are torch's, by whoever makes them."""

import pytest
import torch
from small_workers import small_config, small_model
from test_optim import arrays_of
from torch import nn

from bertsmith.model.config import BertConfig
from bertsmith.model.families.modernbert import ModernBertConfig
from bertsmith.training.optim import OptimSettings, RangeUpdater

SETTINGS = OptimSettings(optimizer="muon", learning_rate=1e-2, weight_decay=0.1)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch below 2.9")
@pytest.mark.parametrize(
    ("kind", "num_parts"),
    [(BertConfig, 1), (BertConfig, 2), (BertConfig, 3), (ModernBertConfig, 2)],
)
def test_updates_are_those_of_torch(kind, num_parts, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)  # torch's iterations in fp32
    bert = small_model("masked_lm", config=small_config(kind, hidden_size=12, intermediate_size=20))
    arrays, layout = arrays_of(bert)
    updaters = [
        RangeUpdater(arrays, layout, part, num_parts, SETTINGS) for part in range(num_parts)
    ]
    named = dict(bert.named_parameters())
    inside = {name for name in named if name.startswith("layers.") and named[name].ndim > 1}
    assert len(inside) == 2 * 4
    stacked = {"qkv.weight": 3, "up_gate.weight": 2}
    counts = {name: stacked.get(".".join(name.split(".")[-2:]), 1) for name in named}
    expected = {
        name: [nn.Parameter(part.clone()) for part in value.detach().chunk(counts[name])]
        for name, value in named.items()
    }
    options = {"lr": 1e-2, "weight_decay": 0.1}
    decayed = [p for name in set(named) - inside if named[name].ndim > 1 for p in expected[name]]
    vectors = [p for name in named if named[name].ndim < 2 for p in expected[name]]
    references = [
        torch.optim.Muon(
            [p for name in inside for p in expected[name]],
            adjust_lr_fn="match_rms_adamw",
            **options,
        ),
        torch.optim.AdamW(decayed, eps=1e-6, **options),
        torch.optim.AdamW(vectors, eps=1e-6, lr=1e-2, weight_decay=0.0),
    ]
    generator = torch.Generator().manual_seed(0)
    for step in range(1, 4):
        views = layout.views(arrays.gradients[0])
        for name, copies in expected.items():
            for copy in copies:
                copy.grad = torch.randn(copy.shape, generator=generator)
            views[name].copy_(2 * torch.cat([copy.grad for copy in copies]))
        for updater in updaters:
            updater.update(arrays.gradients, step, rate=1e-2, divisor=2.0)
        for reference in references:
            reference.step()
    for name, view in layout.views(arrays.weights).items():
        torch.testing.assert_close(view, torch.cat(expected[name]), rtol=1e-4, atol=1e-6)

"""Rates by the place in the model: torch's with parameter groups, in any division into ranges."""

import pytest
import torch
from small_workers import check_same_as_one_process, small_model, small_objective, small_workers
from test_optim import arrays_of, is_vector, model

from bertsmith.errors import ConfigError
from bertsmith.training.layerwise import LayerwiseOptim, freeze
from bertsmith.training.optim import RangeUpdater

SETTINGS = LayerwiseOptim(
    learning_rate=1e-2, weight_decay=0.1, num_layers=2, layer_decay=0.7, freeze_embeddings=True
)


@pytest.mark.parametrize("num_ranges", [1, 3])
def test_updates_equal_torchs_with_parameter_groups(num_ranges):
    bert = model()
    arrays, layout = arrays_of(bert)
    before = arrays.weights.clone()
    named = dict(bert.named_parameters())
    groups = [
        {
            "params": [parameter],
            "lr": 1e-2 * SETTINGS.rate_scale(name),
            "weight_decay": 0.0 if is_vector(name) else 0.1,
        }
        for name, parameter in named.items()
        if SETTINGS.rate_scale(name) > 0
    ]
    reference = torch.optim.AdamW(groups, lr=1.0, eps=1e-6, foreach=False, fused=False)
    updaters = [
        RangeUpdater(arrays, layout, part, num_ranges, SETTINGS) for part in range(num_ranges)
    ]
    generator = torch.Generator().manual_seed(0)
    for step in range(1, 5):
        arrays.gradients.zero_()
        for name, parameter in named.items():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
            layout.views(arrays.gradients[0])[name].copy_(parameter.grad)
        for updater in updaters:
            updater.sum_gradients(arrays.gradients)
            updater.update(arrays.gradients, step, rate=1e-2, divisor=1.0)
        reference.step()
    for name, view in layout.views(arrays.weights).items():
        torch.testing.assert_close(view, named[name].detach(), rtol=1e-5, atol=1e-6)
        is_frozen = name.startswith("embeddings.")
        assert torch.equal(view, layout.views(before)[name]) == is_frozen, name


def test_scales():
    settings = LayerwiseOptim(num_layers=3, layer_decay=0.5, freeze_layers=1)
    names = ("embeddings.word.weight", "layers.0.attention.qkv.weight", "layers.1.a", "layers.2.a",
             "pooler.dense.weight", "heads.classify.dense.bias")  # fmt: skip
    assert [settings.rate_scale(name) for name in names] == [0.0, 0.0, 0.25, 0.5, 1.0, 1.0]
    nothing = LayerwiseOptim(num_layers=3)
    assert [nothing.rate_scale(name) for name in names] == [1.0] * 6


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"layer_decay": 0.0}, "--layer-decay: found 0.0"),
        ({"freeze_layers": 3}, "--freeze-layers: found 3; this model has 2 layers"),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        LayerwiseOptim(num_layers=2, **changes)


def test_workers_do_what_one_process_would(corpus_dir):
    settings = LayerwiseOptim(
        learning_rate=3e-3, weight_decay=0.1, num_layers=2, layer_decay=0.8, freeze_layers=1
    )
    teams = []
    for _ in range(2):
        bert = small_model()
        freeze(bert, settings)
        teams.append(small_workers(small_objective(corpus_dir), 2, torch.bfloat16, bert, settings))
    check_same_as_one_process(*teams)
    before = small_model().state_dict()
    for name, value in teams[0].model.state_dict().items():
        is_frozen = name.startswith(("embeddings.", "layers.0."))
        assert torch.equal(value, before[name]) == is_frozen, name

"""Rates by the place in the model: torch's with parameter groups, in any division into ranges."""

from pathlib import Path

import pytest
import torch
from test_optim import arrays_of, is_vector, model
from test_team import new_team, objective, one_thread, train, wait_for_workers  # noqa: F401

from bertsmith.errors import ConfigError
from bertsmith.training.layerwise import LayerwiseOptim, freeze
from bertsmith.training.optim import RangeUpdater, pieces_of
from bertsmith.training.workers.local import LocalWorkers
from bertsmith.training.workers.member import Plan

SETTINGS = LayerwiseOptim(
    learning_rate=1e-2, weight_decay=0.1, num_layers=2, layer_decay=0.7, freeze_embeddings=True
)


@pytest.mark.parametrize("num_ranges", [1, 3])
def test_updates_equal_torchs_with_parameter_groups(num_ranges: int) -> None:
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


def test_pieces_are_few_and_cover_what_learns() -> None:
    _, layout = arrays_of(model())
    plain = LayerwiseOptim(num_layers=2)
    pieces = pieces_of(layout, (0, layout.size), plain)
    border = max(slot.end for slot in layout.slots if slot.spec.decay)
    border = next(slot.first for slot in layout.slots if slot.first >= border)
    assert [(piece.first, piece.end, piece.rate, piece.decay) for piece in pieces] == [
        (0, border, 1.0, 0.01),
        (border, layout.size, 1.0, 0.0),
    ]
    for settings in (plain, SETTINGS):
        covered = [
            place
            for bounds in layout.divide(3)
            for piece in pieces_of(layout, bounds, settings)
            for place in (piece.first, piece.end - 1)
        ]
        assert covered == sorted(covered)


def test_scales() -> None:
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
def test_what_cannot_be_is_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LayerwiseOptim(num_layers=2, **changes)  # type: ignore[arg-type]


def layerwise_team(corpus_dir: Path, num_members: int, dtype: torch.dtype) -> LocalWorkers:
    plain = new_team(objective(corpus_dir), 1)
    settings = LayerwiseOptim(
        learning_rate=3e-3, weight_decay=0.1, num_layers=2, layer_decay=0.8, freeze_layers=1
    )
    bert = plain.model
    for parameter in bert.parameters():
        parameter.data = parameter.data.clone()
    plain._collector.close()
    freeze(bert, settings)
    return LocalWorkers(bert, dtype, Plan(objective(corpus_dir), settings, 3, num_members))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_workers_do_what_one_process_would(corpus_dir: Path, dtype: torch.dtype) -> None:
    alone = layerwise_team(corpus_dir, 2, dtype)
    before = {name: value.clone() for name, value in alone.model.state_dict().items()}
    expected = train(alone, 1, 5)
    together = layerwise_team(corpus_dir, 2, dtype)
    with together:
        found = train(together, 1, 3)
        wait_for_workers(together)
        found += train(together, 3, 5)
    assert found == expected
    assert torch.equal(together.arrays.weights, alone.arrays.weights)
    for name, value in alone.model.state_dict().items():
        is_frozen = name.startswith(("embeddings.", "layers.0."))
        assert torch.equal(value, before[name]) == is_frozen, name

"""The optimizer: AdamW and Muon by ranges are torch's, and the learning rate rises and falls."""

import math
from contextlib import closing
from dataclasses import replace
from itertools import product

import pytest
import torch
from refusals import refuses
from small_workers import small_config, small_model
from torch import nn

from bertsmith.errors import ConfigError
from bertsmith.lineage.gpt import Gpt, GptConfig
from bertsmith.lineage.t5 import T5, T5Config
from bertsmith.lineage.transformer import Transformer, TransformerConfig
from bertsmith.model.config import BertConfig
from bertsmith.model.families.modernbert import ModernBertConfig
from bertsmith.model.trainable import TrainableModel
from bertsmith.model.weight_names import hugging_face_names
from bertsmith.training import optim
from bertsmith.training.flat_parameters import CHUNK, GradientCollector, Layout, Storage
from bertsmith.training.layerwise import LayerwiseOptim
from bertsmith.training.optim import RangeUpdater, buffers_of, schedule
from bertsmith.training.settings import OptimSettings
from bertsmith.training.update_rules.muon import Muon
from bertsmith.training.update_rules.rule import rule_for

SMALL = {"vocab_size": 31, "hidden_size": 12, "intermediate_size": 20}


def model():
    return small_model(**SMALL)


def arrays_of(bert, dtype=torch.float32, num_parts=2):
    layout = Layout.of(bert.parameter_specs())
    storage = Storage(layout.size, num_parts, dtype, buffers_of(OptimSettings()))
    arrays = storage.arrays_in(torch.zeros(storage.num_bytes, dtype=torch.uint8))
    views = layout.views(arrays.weights)
    for name, parameter in bert.named_parameters():
        views[name].copy_(parameter.detach())
    return arrays, layout


def is_vector(name):
    theirs = hugging_face_names(name, small_config(**SMALL))[0]
    return theirs.endswith(".bias") or "LayerNorm" in theirs


PLAIN = OptimSettings(learning_rate=1e-2, weight_decay=0.1)
LAYERWISE = LayerwiseOptim(
    learning_rate=1e-2, weight_decay=0.1, num_layers=2, layer_decay=0.7, freeze_embeddings=True
)


@pytest.mark.parametrize(
    ("settings", "max_grad_norm", "num_ranges"),
    [(PLAIN, 0.0, 1), (PLAIN, 0.5, 3), (LAYERWISE, 0.0, 3)],
)
def test_ranges_equal_torchs_adamw(settings, max_grad_norm, num_ranges):
    """Gradients in two parts, weights in several ranges, a rate for each layer."""
    bert = model()
    arrays, layout = arrays_of(bert)
    before, named = arrays.weights.clone(), dict(bert.named_parameters())
    updaters = [
        RangeUpdater(arrays, layout, part, num_ranges, settings) for part in range(num_ranges)
    ]
    groups = [
        {"params": [parameter], "lr": 1e-2 * settings.rate_scale(name),
         "weight_decay": 0.0 if is_vector(name) else 0.1}
        for name, parameter in named.items()
        if settings.rate_scale(name) > 0
    ]  # fmt: skip
    reference = torch.optim.AdamW(groups, lr=1.0, eps=1e-6, foreach=False, fused=False)
    generator = torch.Generator().manual_seed(0)
    for step in range(1, 6):
        for name, parameter in named.items():
            parts = torch.randn(2, *parameter.shape, generator=generator)
            parameter.grad = parts.sum(0)
            for gradient, part in zip(arrays.gradients, parts, strict=True):
                layout.views(gradient)[name].copy_(part)
        norm = math.sqrt(
            sum(updater.sum_gradients(arrays.gradients).sum().item() for updater in updaters)
        )
        divisor = max(1.0, norm / max_grad_norm) if max_grad_norm else 1.0
        for updater in updaters:
            updater.update(arrays.gradients, step, rate=1e-2, divisor=divisor)
        if max_grad_norm:
            clipped = nn.utils.clip_grad_norm_(bert.parameters(), max_grad_norm)
            assert norm == pytest.approx(clipped.item())
        reference.step()
    for name, view in layout.views(arrays.weights).items():
        torch.testing.assert_close(view, named[name].detach(), rtol=1e-5, atol=1e-6)
        is_frozen = settings.rate_scale(name) == 0
        assert torch.equal(view, layout.views(before)[name]) == is_frozen, name


@pytest.mark.parametrize("num_parts", [1, 3])
def test_gradients_as_they_came_move_the_weights_as_their_fp32_sum_does(num_parts, monkeypatch):
    settings = OptimSettings(learning_rate=1e-2, weight_decay=0.1)
    results = []
    for block, num_micro_batches in product(
        (CHUNK, optim.UPDATE_BLOCK), (num_parts, num_parts + 1)
    ):
        monkeypatch.setattr(optim, "UPDATE_BLOCK", block)
        arrays, layout = arrays_of(model(), torch.bfloat16, num_parts)
        gradients = arrays.gradients_of(num_micro_batches)
        assert (gradients.dtype == torch.bfloat16) == (num_micro_batches == num_parts)
        found = torch.randn(num_parts, layout.size, generator=torch.Generator().manual_seed(1))
        gradients.copy_(found.bfloat16())
        squares = []
        for part in range(2):
            updater = RangeUpdater(arrays, layout, part, 2, settings)
            squares.append(updater.sum_gradients(gradients))
            updater.update(gradients, 1, rate=1e-2, divisor=3.0)
        used = [slot for view in (arrays.weights, arrays.compute_weights)
                for slot in layout.views(view).values()]  # fmt: skip
        results.append([*squares, *used, *arrays.buffers.values()])
    for all_ways in zip(*results, strict=True):
        assert all(torch.equal(all_ways[0], other) for other in all_ways[1:])


def test_gradients_of_micro_batches_add_up_in_fp32_and_nothing_lies_between():
    layer = TrainableModel()
    layer.weight = nn.Parameter(torch.zeros(1, 3, dtype=torch.bfloat16))
    layout = Layout.of(layer.parameter_specs())
    array = torch.full((layout.size,), 9.0)  # what lies between counts in the gradient's length
    with closing(GradientCollector(layer, layout)) as collector:
        collector.begin(array)
        for rows in ([[256.0, 1, 2]], [[1.0, 1, 2]]):
            (torch.tensor(rows).bfloat16() @ layer.weight.T).sum().backward()
        collector.end()
    # 257 has no bf16; fp32 keeps it.
    assert layout.views(array)["weight"].tolist() == [[257.0, 2.0, 4.0]]
    assert array.sum() == 257 + 2 + 4


@pytest.mark.parametrize(("kind", "expected"), [
    ("linear", [0.5, 1, 0.5, 1 / 3, 0]),
    ("cosine", [0.5, 1, 0.5, 0.25, 0]),
    ("constant", [0.5, 1, 1, 1, 1]),
    ("wsd", [0.5, 1, 1, 1 - math.sqrt(0.25), 0]),
    ("noam", [0.5, 1, math.sqrt(1 / 5.5), math.sqrt(1 / 7), math.sqrt(0.1)]),
])  # fmt: skip
def test_the_schedule_rises_then_falls(kind, expected):
    fraction = 0.4 if kind == "wsd" else OptimSettings.decay_fraction
    settings = OptimSettings(warmup_fraction=0.1, schedule=kind, decay_fraction=fraction)
    found = [schedule(progress, settings) for progress in (0.05, 0.1, 0.55, 0.7, 1.0)]
    assert found == pytest.approx(expected)


def test_rates_of_layers():
    settings = LayerwiseOptim(num_layers=3, layer_decay=0.5, freeze_layers=1)
    names = ("embeddings.word.weight", "layers.0.attention.qkv.weight", "layers.1.a", "layers.2.a",
             "pooler.dense.weight", "heads.classify.dense.bias")  # fmt: skip
    assert [settings.rate_scale(name) for name in names] == [0.0, 0.0, 0.25, 0.5, 1.0, 1.0]
    assert {LayerwiseOptim(num_layers=3).rate_scale(name) for name in names} == {1.0}
    for name, value, allowed in (("layer_decay", 0.0, "at most 1"), ("freeze_layers", 4, "0 to 3")):
        with refuses(ConfigError, f"--{name.replace('_', '-')}: found {value}", allowed):
            replace(settings, **{name: value})


SETTINGS = OptimSettings(optimizer="muon", learning_rate=1e-2, weight_decay=0.1)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch below 2.9")
@pytest.mark.parametrize(("kind", "num_parts"), [(BertConfig, 3), (ModernBertConfig, 2)])
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
    matrices = [p for name in inside for p in expected[name]]
    decayed = [p for name in set(named) - inside if named[name].ndim > 1 for p in expected[name]]
    vectors = [p for name in named if named[name].ndim < 2 for p in expected[name]]
    references = [
        torch.optim.Muon(matrices, adjust_lr_fn="match_rms_adamw", **options),
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


@pytest.mark.parametrize(
    "kind",
    [
        lambda: Gpt(GptConfig(31, 12, 1, 2, 16)),
        lambda: T5(T5Config(31, 12, 6, 20, 1, 1, 2, feed_forward_proj="gated-gelu")),
        lambda: Transformer(TransformerConfig(31, 12, 1, 1, 2, 2, 20, 20)),
    ],
)
def test_muon_updates_all_matrices_inside_layers_of_other_systems(kind):
    rules = optim.update_rules(SETTINGS)
    specs = {spec.name: spec for spec in kind().parameter_specs() if spec.kind == "matrix"}
    specs.pop("logit_bias", None)  # of the Transformer; it is not trained
    specs.pop("output.weight", None)  # the output layer of this T5
    assert len(specs) >= 4
    stacked = {"qkv": 3, "key_value": 2, "up_gate": 2}
    for name, spec in specs.items():
        rule = rule_for(spec, rules)
        assert (type(rule), rule.num_stacked) == (Muon, stacked.get(name.split(".")[-2], 1)), name


def test_an_unknown_schedule_is_refused():
    with refuses(ConfigError, "--schedule", "sine", "linear", "noam", worded=False):
        OptimSettings(schedule="sine")  # type: ignore[arg-type]


def test_noam_is_the_rate_of_the_paper():
    """Vaswani et al. 2017, section 5.3: d^-0.5 · min(step^-0.5, step · warmup^-1.5)."""
    steps, warmup, size = 1000, 80, 512
    settings = OptimSettings(warmup_fraction=warmup / steps, schedule="noam")
    peak = (size * warmup) ** -0.5
    for step in (1, 40, 80, 81, 500, 1000):
        expected = size**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert peak * schedule(step / steps, settings) == pytest.approx(expected)
    with refuses(ConfigError, "--warmup-fraction", "noam"):
        OptimSettings(warmup_fraction=0.0, schedule="noam")

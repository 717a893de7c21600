"""Counts equal those by hand, by transformers and by torch's own counter."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_models import tiny_config
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from bertsmith.data.batches import Batch, pack
from bertsmith.model.accounting import (
    ATTENTION,
    FEED_FORWARD,
    Component,
    Work,
    beyond_formula,
    component_of,
    computed_work,
    count_parameters,
    formula,
    memory,
    pretraining_model,
    real_work,
    saved_activations,
    total,
    training_flops,
)
from bertsmith.model.attention import SelfAttention
from bertsmith.model.bert import BertModel
from bertsmith.model.config import PRESETS, BertConfig
from bertsmith.model.families import build_heads
from bertsmith.pretraining.objective import pretraining_losses
from bertsmith.training.flat_parameters import Layout, Storage

WIDTH, INNER, LAYERS, WORDS, POSITIONS = 30, 47, 3, 101, 37


def small_config() -> BertConfig:
    return tiny_config(
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        vocab_size=WORDS,
        max_position_embeddings=POSITIONS,
        type_vocab_size=5,
    )


@pytest.mark.parametrize(
    ("preset", "by_formula", "exact"),
    [("base", 108_369_408, 109_482_240), ("large", 333_236_224, 335_141_888)],
)
def test_the_released_sizes(preset: str, by_formula: int, exact: int) -> None:
    assert formula(BertConfig.from_preset(preset, vocab_size=30_000)) == by_formula
    counts = count_parameters(pretraining_model(BertConfig.from_preset(preset, vocab_size=30_522)))
    assert total(counts, heads=False) == exact


def test_every_component_by_hand() -> None:
    counts = count_parameters(pretraining_model(small_config()))
    assert {name: (each.matrices, each.vectors) for name, each in counts.items()} == {
        "word embedding": (WORDS * WIDTH, 0),
        "position embedding": (POSITIONS * WIDTH, 0),
        "segment embedding": (5 * WIDTH, 0),
        "embedding LayerNorm": (0, 2 * WIDTH),
        "attention": (LAYERS * 4 * WIDTH**2, LAYERS * 4 * WIDTH),
        "LayerNorms": (0, LAYERS * 4 * WIDTH),
        "feed-forward": (LAYERS * 2 * WIDTH * INNER, LAYERS * (WIDTH + INNER)),
        "masked_lm head": (WIDTH**2, 3 * WIDTH + WORDS),
        "next_sentence head": (2 * WIDTH, 2),
        "pooler": (WIDTH**2, WIDTH),
    }
    assert counts[ATTENTION].per_layer == 4 * WIDTH**2 + 4 * WIDTH
    assert counts["pooler"].per_layer == 0


@pytest.mark.parametrize("preset", [*PRESETS, "small_config"])
def test_as_many_as_transformers_has(preset: str) -> None:
    import transformers

    config = (
        small_config()
        if preset == "small_config"
        else BertConfig.from_preset(preset, vocab_size=997)
    )
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
             "intermediate_size", "max_position_embeddings", "type_vocab_size")  # fmt: skip
    theirs = transformers.BertConfig(**{name: getattr(config, name) for name in names})
    with torch.device("meta"):
        encoder = transformers.BertModel(theirs)
        with_heads = transformers.BertForPreTraining(theirs)
    counts = count_parameters(pretraining_model(config))
    assert total(counts, heads=False) == sum(each.numel() for each in encoder.parameters())
    assert total(counts) == sum(each.numel() for each in with_heads.parameters())


@pytest.mark.parametrize("config", [small_config(), BertConfig.from_preset("base", 30_522)])
def test_what_the_formula_leaves_out_adds_up(config: BertConfig) -> None:
    counts = count_parameters(pretraining_model(config))
    lines = beyond_formula(counts, config)
    assert formula(config) + sum(lines.values()) == total(counts, heads=False)


def test_the_lines_of_base_are_what_the_formula_forgets() -> None:
    config = BertConfig.from_preset("base", 30_522)
    assert beyond_formula(count_parameters(pretraining_model(config)), config) == {
        "embedding LayerNorm": 2 * 768,
        "biases of attention": 12 * 4 * 768,
        "LayerNorms of the layers": 12 * 4 * 768,
        "biases of feed-forward": 12 * (3072 + 768),
        "pooler": 768**2 + 768,
    }


class Sharing(BertModel):
    """All layers are one, and embeddings are projected."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList([self.layers[0]] * config.num_hidden_layers)
        self.embeddings.projection = nn.Linear(7, config.hidden_size)


def test_shared_weights_count_once_and_are_used_often() -> None:
    with torch.device("meta"):
        counts = count_parameters(Sharing(small_config()))
    matrices = 2 * WIDTH * INNER
    assert counts[FEED_FORWARD] == Component(
        matrices=matrices,
        vectors=WIDTH + INNER,
        used=LAYERS * matrices,
        per_layer=matrices + WIDTH + INNER,
    )
    assert counts["embedding projection"].total == 8 * WIDTH
    lines = beyond_formula(counts, small_config())
    assert formula(small_config()) + sum(lines.values()) == total(counts)


def test_what_is_unknown_is_counted_under_its_own_name() -> None:
    assert component_of("generator.layers.0.attention.qkv.weight") == "generator"
    assert component_of("heads.span.dense.weight") == "span head"
    assert component_of("temperature") == "temperature"


def batch_of(lengths: list[int], seed: int = 0) -> Batch:
    """Random rows with every sixth token to be predicted."""
    rng = np.random.default_rng(seed)
    batch = pack([rng.integers(5, WORDS, length) for length in lengths])
    positions = torch.arange(0, batch.num_tokens, 6)
    return replace(
        batch,
        targets={
            "masked_positions": positions,
            "masked_labels": torch.from_numpy(rng.integers(5, WORDS, len(positions))),
            "next_sentence_labels": torch.from_numpy(rng.integers(0, 2, len(lengths))),
        },
    )


def trained(config: BertConfig) -> BertModel:
    return BertModel(config, build_heads(config, ["masked_lm", "next_sentence"])).train()


def loss_of(model: BertModel, batch: Batch) -> torch.Tensor:
    terms = pretraining_losses(model, batch, "next_sentence").values()
    return torch.stack([term.sum for term in terms]).sum()


@pytest.mark.parametrize("pruned", [{}, {1: [0, 2]}])
@pytest.mark.parametrize("lengths", [[37, 37, 37, 31, 30, 11, 5], [16] * 4, [3]])
def test_operations_are_those_that_torch_counts(
    lengths: list[int], pruned: dict[int, list[int]]
) -> None:
    config = replace(small_config(), pruned_heads=pruned)
    model, batch = trained(config), batch_of(lengths)
    predicted = len(batch.targets["masked_labels"])
    with FlopCounterMode(display=False) as counter:
        loss_of(model, batch).backward()
    flops = training_flops(count_parameters(model), config, computed_work(batch, predicted))
    assert sum(flops.values()) == counter.get_total_flops()


def test_operations_of_real_tokens_by_hand() -> None:
    config = BertConfig.from_preset("tiny", 1000)
    counts = count_parameters(pretraining_model(config))
    work = Work(tokens=30, looks=10**2 + 20**2, predicted=5, sequences=2)
    assert training_flops(counts, config, work) == {
        "layers": 3 * 30 * 2 * 24 * 128**2,
        "attention": 3 * 4 * 500 * 128 * 2,
        "vocabulary": 3 * 5 * (2 * 128**2 + 2 * 128 * 1000) + 2 * 5 * 1000,
        "sequences": 3 * 2 * (2 * 128**2 + 2 * 128 * 2),
    }


def test_work_adds_up() -> None:
    batch = batch_of([7, 5])
    assert real_work(batch, 2) == Work(12, 74, 2, 2)
    assert (real_work(batch, 2) + Work(1, 1, 1, 1)).times(3) == Work(39, 225, 9, 9)
    # 12 tokens are computed as 16, one block of 2 rows of 16, 2 predictions as 16.
    assert computed_work(batch, 2) == Work(16, 2 * 16**2, 16, 2)


def saved_bytes(model: BertModel, batch: Batch) -> int:
    """What torch keeps of the encoder's forward pass, each memory once, weights left out."""
    kept: dict[int, int] = {each.untyped_storage().data_ptr(): 0 for each in model.parameters()}

    def pack_hook(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept.setdefault(storage.data_ptr(), storage.nbytes())
        held.append(tensor)
        return tensor

    held: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(pack_hook, lambda tensor: tensor):
        hidden = model.encode(batch)
    assert hidden.requires_grad
    return sum(kept.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("length", [64, 512])
def test_activations_are_those_that_torch_keeps(
    dtype: torch.dtype, dropout: float, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SelfAttention, "is_fused_faster", lambda *_: False)
    config = BertConfig.from_preset(
        "tiny",
        WORDS,
        num_hidden_layers=3,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    batch = batch_of([length] * (1024 // length))
    model = trained(config).to(dtype)
    expected = saved_activations(config, computed_work(batch, 0), dtype.itemsize, is_fused=False)
    assert saved_bytes(model, batch) == pytest.approx(expected, rel=0.02)


def test_memory_by_hand() -> None:
    config = BertConfig.from_preset("tiny", 1000, attention_probs_dropout_prob=0.0)
    model = pretraining_model(config)
    size = Layout.of(model.parameter_specs()).size
    work = Work(100, 5000, 15, 4)
    found = memory(model, work, "bf16", 2, size=size, is_fused=False, sums_gradients=True)
    assert found.weights == 6 * size
    assert found.optimizer == 8 * size
    assert found.gradients == 2 * 4 * size
    assert found.shared == Storage(size, 2, torch.bfloat16, ("exp_avg", "exp_avg_sq")).num_bytes
    layer = 100 * (10 * 128 + 2 * 512) + 5000 * 2
    kept = 2 * (2 * layer + 100 * 2 * 128)
    assert found.activations == kept + 2 * 15 * 1000 + 2 * 2 * 1000 * 128
    assert found.everything == found.shared + 2 * found.activations
    as_they_came = memory(model, work, "bf16", 2, size=size, is_fused=False, sums_gradients=False)
    assert as_they_came == replace(found, gradients=2 * 2 * size)
    in_fp32 = memory(model, work, "fp32", 1, size=size, is_fused=True, sums_gradients=False)
    assert in_fp32.gradients == 4 * size
    assert in_fp32.weights == 4 * size
    assert in_fp32.activations < 2 * found.activations

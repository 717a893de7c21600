"""Counts equal those by hand, by transformers and by torch's own counter."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from tiny_models import tiny_config
from torch.utils.flop_counter import FlopCounterMode

from bertsmith.data.batches import pack
from bertsmith.model.accounting import (
    beyond_formula,
    count_parameters,
    formula,
    pretraining_model,
    total,
)
from bertsmith.model.attention import SelfAttention
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads
from bertsmith.model.families.albert import AlbertConfig
from bertsmith.model.families.modernbert import ModernBertConfig
from bertsmith.model.step_cost import (
    Workload,
    computed_work,
    memory,
    saved_activations,
    training_flops,
)
from bertsmith.pretraining.objective import pretraining_losses
from bertsmith.training.flat_parameters import Layout, Storage

WIDTH, INNER, LAYERS, WORDS, POSITIONS = 30, 47, 3, 101, 37


def small_config():
    return tiny_config(
        hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS, vocab_size=WORDS,
        max_position_embeddings=POSITIONS, type_vocab_size=5,
    )  # fmt: skip


@pytest.mark.parametrize("preset", [None, "base"])
def test_as_many_as_transformers_has(preset):
    config = BertConfig.from_preset(preset, vocab_size=997) if preset else small_config()
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
             "intermediate_size", "max_position_embeddings", "type_vocab_size")  # fmt: skip
    theirs = transformers.BertConfig(**{name: getattr(config, name) for name in names})
    with torch.device("meta"):
        model = transformers.BertForPreTraining(theirs)
    counts = count_parameters(pretraining_model(config))
    encoder = total(counts, heads=False)
    assert encoder == sum(each.numel() for each in model.bert.parameters())
    assert total(counts) == sum(each.numel() for each in model.parameters())
    assert formula(config) + sum(beyond_formula(counts, config).values()) == encoder


def batch_of(lengths, seed=0):
    """Random rows with every sixth token to be predicted."""
    rng = np.random.default_rng(seed)
    batch = pack([rng.integers(5, WORDS, length) for length in lengths])
    positions = torch.arange(0, batch.num_tokens, 6)
    return replace(
        batch,
        targets={
            "masked_positions": positions,
            "masked_labels": torch.from_numpy(rng.integers(5, WORDS, len(positions))),
            "next_sentence_rows": torch.arange(len(lengths)),
            "next_sentence_labels": torch.from_numpy(rng.integers(0, 2, len(lengths))),
        },
    )


def trained(config, heads):
    return BertModel(config, build_heads(config, heads)).train()


@pytest.mark.parametrize(
    ("lengths", "pruned"), [([37, 37, 37, 31, 30, 11, 5], {}), ([3], {}), ([37, 9], {1: [0, 2]})]
)
def test_operations_are_those_that_torch_counts(lengths, pruned):
    config = replace(small_config(), pruned_heads=pruned)
    assert_counted(config, lengths, "next_sentence")


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (ModernBertConfig, {"local_attention": 8}),
        (AlbertConfig, {"embedding_size": 7}),
        (AlbertConfig, {"embedding_size": 7, "inner_group_num": 2}),
    ],
)
def test_operations_of_gated_and_of_shared_layers(kind, more):
    # Dropout: attention is then by plain products, which are all that torch counts.
    config = kind(WORDS, 30, 3, 3, INNER, attention_probs_dropout_prob=0.1, **more)
    assert_counted(config, [37, 37, 9], "none")


def assert_counted(config, lengths, pair_task):
    heads = ["masked_lm", *[pair_task] * (pair_task != "none")]
    model, batch = trained(config, heads), batch_of(lengths)
    with FlopCounterMode(display=False) as counter:
        terms = pretraining_losses(model, batch, pair_task).values()
        torch.stack([term.sum for term in terms]).sum().backward()
    work = computed_work(batch, len(batch.targets["masked_labels"]))
    flops = training_flops(count_parameters(model), config, work)
    assert sum(flops.values()) == counter.get_total_flops()


def saved_bytes(model, batch):
    """What torch keeps of the encoder's forward pass, each memory once, weights left out."""
    kept = {each.untyped_storage().data_ptr(): 0 for each in model.parameters()}
    held = []

    def pack_hook(tensor):
        storage = tensor.untyped_storage()
        kept.setdefault(storage.data_ptr(), storage.nbytes())
        held.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack_hook, lambda tensor: tensor):
        _hidden = model.encode(batch)
    return sum(kept.values())


@pytest.mark.parametrize(
    ("kind", "dtype", "dropout", "length"),
    [(BertConfig, torch.float32, 0.0, 512), (BertConfig, torch.float32, 0.1, 64),
     (BertConfig, torch.bfloat16, 0.1, 512), (ModernBertConfig, torch.float32, 0.0, 64)],
)  # fmt: skip
def test_activations_are_those_that_torch_keeps(kind, dtype, dropout, length, monkeypatch):
    monkeypatch.setattr(SelfAttention, "is_fused_faster", lambda *_: False)
    config = kind.from_preset(
        "tiny", WORDS, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout
    )
    batch = batch_of([length] * (1024 // length))
    model = trained(config, ()).to(dtype)
    expected = saved_activations(config, computed_work(batch, 0), dtype.itemsize, is_fused=False)
    assert saved_bytes(model, batch) == pytest.approx(expected, rel=0.02)


def test_memory_by_hand():
    config = BertConfig.from_preset("tiny", 1000, attention_probs_dropout_prob=0.0)
    model = pretraining_model(config)
    size = Layout.of(model.parameter_specs()).size
    work = Workload(100, 5000, 15, 4)
    found = memory(model, work, "bf16", 2, size=size, is_fused=False, sums_gradients=True)
    assert (found.weights, found.optimizer, found.gradients) == (6 * size, 8 * size, 2 * 4 * size)
    assert found.shared == Storage(size, 2, torch.bfloat16, ("exp_avg", "exp_avg_sq")).num_bytes
    layer = 100 * (10 * 128 + 2 * 512) + 5000 * 2
    kept = 2 * (2 * layer + 100 * 2 * 128)
    assert found.activations == kept + 2 * 15 * 1000 + 2 * 2 * 1000 * 128
    assert found.everything == found.shared + 2 * found.activations
    as_they_came = memory(model, work, "bf16", 2, size=size, is_fused=False, sums_gradients=False)
    assert as_they_came == replace(found, gradients=2 * 2 * size)
    in_fp32 = memory(model, work, "fp32", 1, size=size, is_fused=True, sums_gradients=False)
    assert in_fp32.gradients == in_fp32.weights == 4 * size
    assert in_fp32.activations < 2 * found.activations

"""Counts equal torch's own; see commands/test_params.py too."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bertsmith.data.batches import pack
from bertsmith.model.accounting import count_parameters
from bertsmith.model.attention import SelfAttention
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads
from bertsmith.model.families.albert import AlbertConfig
from bertsmith.model.families.modernbert import ModernBertConfig
from bertsmith.model.step_cost import computed_work, saved_activations, training_flops
from bertsmith.pretraining.objective import pretraining_losses

WORDS = 101
SIZES = (WORDS, 30, 3, 3, 47)  # vocabulary, width, layers, heads, inner width


def small_config(**changes):
    return BertConfig(*SIZES, max_position_embeddings=37, type_vocab_size=5, **changes)


def batch_of(lengths, seed=0):
    """Random rows with every sixth token to be predicted."""
    rng = np.random.default_rng(seed)
    batch = pack([rng.integers(5, WORDS, length) for length in lengths])
    positions = torch.arange(0, batch.num_tokens, 6)
    targets = {
        "masked_positions": positions,
        "masked_labels": torch.from_numpy(rng.integers(5, WORDS, len(positions))),
        "next_sentence_rows": torch.arange(len(lengths)),
        "next_sentence_labels": torch.from_numpy(rng.integers(0, 2, len(lengths))),
    }
    return replace(batch, targets=targets)


def trained(config, heads):
    return BertModel(config, build_heads(config, heads)).train()


# Dropout: attention is then by plain products, which are all that torch counts.
OTHERS = {"attention_probs_dropout_prob": 0.1}


@pytest.mark.parametrize(("config", "lengths", "pair_task"), [
    (small_config(), [37, 37, 37, 31, 30, 11, 5], "next_sentence"),
    (ModernBertConfig(*SIZES, local_attention=8, **OTHERS), [37, 37, 9], "none"),
    (AlbertConfig(*SIZES, embedding_size=7, inner_group_num=2, **OTHERS), [37, 9], "none"),
], ids=["bert", "gated", "groups"])  # fmt: skip
def test_operations_are_those_that_torch_counts(config, lengths, pair_task):
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

    def pack_hook(tensor):
        storage = tensor.untyped_storage()
        kept.setdefault(storage.data_ptr(), storage.nbytes())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack_hook, lambda tensor: tensor):
        _hidden = model.encode(batch)
    return sum(kept.values())


@pytest.mark.parametrize(
    ("kind", "dtype", "dropout", "length"),
    [(BertConfig, torch.float32, 0.1, 64), (BertConfig, torch.bfloat16, 0.0, 256),
     (ModernBertConfig, torch.float32, 0.0, 64)],
)  # fmt: skip
def test_activations_are_those_that_torch_keeps(kind, dtype, dropout, length, monkeypatch):
    monkeypatch.setattr(SelfAttention, "is_fused_faster", lambda *_: False)
    config = kind.from_preset(
        "tiny", WORDS, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout
    )
    batch = batch_of([length] * (512 // length))
    model = trained(config, ()).to(dtype)
    expected = saved_activations(config, computed_work(batch, 0), dtype.itemsize, is_fused=False)
    assert saved_bytes(model, batch) == pytest.approx(expected, rel=0.02)

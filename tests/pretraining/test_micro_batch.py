"""The memory that bounds a micro-batch is what torch keeps."""

import numpy as np
import pytest
import torch

from bertsmith.data.batches import pack
from bertsmith.model import dense_attention
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families.modernbert import ModernBertConfig
from bertsmith.pretraining.micro_batch import saved_activations

WORDS = 101


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
    monkeypatch.setattr(dense_attention, "is_fused_faster", lambda *_: False)
    config = kind.from_preset(
        "tiny", WORDS, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout
    )
    rng, num_rows = np.random.default_rng(0), 512 // length
    batch = pack([rng.integers(5, WORDS, length) for _ in range(num_rows)])
    model = BertModel(config).train().to(dtype)
    expected = num_rows * saved_activations(config, length, dtype.itemsize)
    assert saved_bytes(model, batch) == pytest.approx(expected, rel=0.02)

"""Small models with prime sizes, so that no two axes can be swapped unseen."""

import pytest
import torch

from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads

SMALL = {
    "vocab_size": 101, "hidden_size": 33, "num_hidden_layers": 2, "num_attention_heads": 3,
    "intermediate_size": 37, "max_position_embeddings": 29, "type_vocab_size": 3,
    "initializer_range": 0.2,
}  # fmt: skip


@pytest.fixture
def small_model():
    """A small model with these heads, in evaluation mode; biases are not zero."""

    def build(*heads, num_labels=None, **changes):
        torch.manual_seed(5)
        config = BertConfig(**{**SMALL, **changes})
        model = BertModel(config, build_heads(config, heads, num_labels))
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "norm" in name:
                torch.nn.init.normal_(parameter, mean=float("norm.weight" in name), std=0.1)
        return model.eval()

    return build


@pytest.fixture
def padded_inputs():
    """Seven rows of up to 23 tokens: full, right-padded, left-padded, with holes, one token."""
    generator = torch.Generator().manual_seed(11)
    mask = torch.zeros(7, 23, dtype=torch.int64)
    mask[0] = 1
    mask[1, :13] = 1
    mask[2, 5:] = 1
    mask[3] = (torch.rand(23, generator=generator) < 0.5).long()
    mask[4, 7] = 1
    mask[5, :13] = 1
    mask[6, :11] = 1
    return {
        "input_ids": torch.randint(0, 101, (7, 23), generator=generator),
        "attention_mask": mask,
        "token_type_ids": torch.randint(0, 3, (7, 23), generator=generator),
    }

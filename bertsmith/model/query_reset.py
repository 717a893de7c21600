"""Reset last-layer queries to zero: [CLS] starts as the mean over tokens.

Heads for whole texts read [CLS], whose attention is trained by the sentence-pair objective alone.
After short pre-training it is still near that of masked LM (two layers, a quarter of an hour on
reviews: one head of the first layer attends to [CLS] only, one of the last mostly to [SEP]), and
few labels do not change it. Resetting whole layers (Zhang et al. 2021, "Revisiting Few-sample BERT
Fine-tuning", section 5) gained no more here and lost more of what pre-training gave.
"""

from typing import cast

import torch

from bertsmith.errors import ConfigError
from bertsmith.model.attention import SelfAttention
from bertsmith.model.bert import BertModel


def has_own_queries(model: BertModel) -> bool:
    """Return whether the last layer shares its attention with no other."""
    last = model.layers[-1].attention
    return all(layer.attention is not last for layer in model.layers[:-1])


def reset_queries(model: BertModel) -> None:
    """Set the last layer's queries to zero: every softmax becomes uniform.

    Raises:
        ConfigError: other layers share them.
    """
    if not has_own_queries(model):
        raise ConfigError(
            "the last layer's attention is that of other layers too, which would be lost. Choose "
            "a model whose layers have weights of their own."
        )
    qkv = cast(SelfAttention, model.layers[-1].attention).qkv
    with torch.no_grad():
        qkv.weight[: qkv.out_features // 3] = 0.0
        qkv.bias[: qkv.out_features // 3] = 0.0

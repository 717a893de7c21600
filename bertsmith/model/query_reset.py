"""A last layer whose tokens read all others alike: its queries begin anew, at zero.

Heads for whole texts read [CLS], and what [CLS] reads is learnt in pre-training from its task on
pairs alone. Where that was too short for the task, [CLS] looks where the hidden words left it: in a
model of two layers, after a quarter of an hour on reviews, one head of the first only at [CLS]
itself, one of the last mostly at [SEP]. Few labels do not teach it to look elsewhere. With queries
at zero every softmax is even, so that [CLS] begins as the mean over the text and learns from there
what matters; keys, values and all other weights stay. (Zhang et al. 2021, "Revisiting Few-sample
BERT Fine-tuning", section 5, begin whole layers anew, which gained no more here and lost more of
what was learnt.)
"""

from typing import cast

import torch

from bertsmith.errors import ConfigError
from bertsmith.model.attention import SelfAttention
from bertsmith.model.bert import BertModel


def has_own_queries(model: BertModel) -> bool:
    """Whether the last layer's attention is no other layer's too."""
    last = model.layers[-1].attention
    return all(layer.attention is not last for layer in model.layers[:-1])


def reset_queries(model: BertModel) -> None:
    """Set the last layer's queries to zero, in place.

    Raises:
        ConfigError: other layers have the same ones.
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

"""Removal of layers.

Remaining weights are unchanged, so the shallower model needs further training, by distillation or
fine-tuning: as it stands it has lost much.
"""

import copy
from collections.abc import Sequence
from dataclasses import fields
from typing import Literal

from torch import nn

from bertsmith.errors import ConfigError, check_choice
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads
from bertsmith.model.families.distilbert import DistilBertConfig

LayerChoice = Literal["spread", "first", "last"]
LAYER_CHOICES: tuple[LayerChoice, ...] = ("spread", "first", "last")


def choose_layers(num_layers: int, num_kept: int, choice: LayerChoice = "spread") -> list[int]:
    """Choose `num_kept` of `num_layers` layers, numbered from 0.

    "spread" takes the first, the last, and those between at equal distances: half of them is "one
    layer out of two" of DistilBERT (Sanh et al. 2019, section 3), and of twelve layers those that
    its released code takes. A layer halfway between two is the lower one.

    >>> choose_layers(12, 6), choose_layers(6, 3), choose_layers(6, 2, "last")
    ([0, 2, 4, 7, 9, 11], [0, 2, 5], [4, 5])

    Raises:
        ConfigError: there are not so many layers, or none is to be kept.
    """
    check_choice("choice", choice, LAYER_CHOICES)
    if not 1 <= num_kept <= num_layers:
        raise ConfigError(f"num_layers: found {num_kept}; the model has 1 to {num_layers} to keep.")
    if choice == "last":
        return list(range(num_layers - num_kept, num_layers))
    if choice == "first" or num_kept == 1:
        return list(range(num_kept))
    gaps = num_kept - 1
    # Integer rounding of (2 * place - gaps) / (2 * gaps), upwards.
    return [-(-(2 * i * (num_layers - 1) - gaps) // (2 * gaps)) for i in range(num_kept)]


def truncate_layers(model: BertModel, keep: Sequence[int]) -> BertModel:
    """Return a copy with only the layers `keep`, from 0 and rising.

    Raises:
        ConfigError: `keep` is empty, out of range or not rising, or layers share weights in groups.
    """
    num_layers = model.config.num_hidden_layers
    if not keep or list(keep) != sorted(set(keep)) or not 0 <= keep[0] <= keep[-1] < num_layers:
        raise ConfigError(
            f"keep: found {', '.join(map(str, keep)) or 'nothing'}; allowed are layers 0 to "
            f"{num_layers - 1}, rising, each once."
        )
    config = model.config.with_layers(keep)
    smaller = copy.deepcopy(model)
    smaller.layers = nn.ModuleList(smaller.layers[number] for number in keep)
    smaller.config = config
    return smaller


def distilled(model: BertModel) -> BertModel:
    """Convert a BERT with masked-LM head to DistilBERT.

    The embedding of the first segment is added to every position's, so that a text of one segment
    is read as before (Sanh et al. 2019, section 3, drop it and keep the rest).

    Raises:
        ConfigError: the model is of another family, has no masked-LM head, or pruned heads.
    """
    config = model.config
    if config.model_type != "bert" or config.pruned_heads or "masked_lm" not in model.heads:
        raise ConfigError(
            f"--family distilbert: found a model of the family {config.model_type} with the heads "
            f"{', '.join(model.heads) or 'none'}. Only a BERT with a masked-LM head and all of its "
            "attention heads becomes one. Leave --family out, or pass --family None (recipes)."
        )
    shared = {
        field.name: getattr(config, field.name)
        for field in fields(BertConfig)
        if field.name not in ("type_vocab_size", "pooling", "layer_norm_eps")
    }
    own = DistilBertConfig(**shared)
    student = BertModel(own, build_heads(own, ["masked_lm"]))
    weights = model.state_dict()
    segment = weights["embeddings.token_type.weight"][0]
    weights["embeddings.position.weight"] = weights["embeddings.position.weight"] + segment
    student.load_state_dict({name: weights[name] for name in student.state_dict()})
    return student

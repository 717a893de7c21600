"""Removal of layers.

Remaining weights are unchanged, so the shallower model needs further training, by distillation or
fine-tuning: as it stands it has lost much.
"""

import copy
from collections.abc import Sequence
from typing import Literal

from torch import nn

from bertsmith.errors import ConfigError, check_choice
from bertsmith.model.bert import BertModel

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

"""How the position embeddings of a new model begin."""

import torch
from torch import Tensor

from bertsmith.model.bert import BertModel

LONGEST_WAVE = 1000.0
"""Positions in the longest of the waves, over 2 pi. Vaswani et al. have 10,000, for which a row of
128 tokens is too short: half of the waves would stand still in it."""

AMPLITUDE = 2.8
"""Of the waves, in spreads of the other first weights (`initializer_range`). With 1.4 to 2 some
seeds stay longer on the plateau, with 10 the positions drown the words."""


@torch.no_grad()
def start_with_waves(model: BertModel) -> None:
    """Let each position begin as sines and cosines of its number, to be trained like any weight.

    Neighbours then are alike and every distance is one rotation, wherever it is, so that a head
    finds the word before or behind in a few hundred steps. Of random vectors it has to learn each
    position by itself, and a small model stays long on the plateau of mere word frequencies; when
    it leaves is a matter of the seed.
    """
    weight, first = model.embeddings.position.weight, model.config.first_position
    amplitude = AMPLITUDE * model.config.initializer_range
    weight[first:] = amplitude * waves(len(weight) - first, weight.shape[1])


def waves(count: int, width: int) -> Tensor:
    """Sines and cosines by turns, `[count, width]`, of waves from short to long (Vaswani et al.
    2017, section 3.5)."""
    rates = LONGEST_WAVE ** -(torch.arange(0, width, 2) / width)
    angles = torch.arange(count)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]

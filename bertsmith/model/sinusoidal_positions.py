"""Sinusoidal initialization of position embeddings."""

import torch
from torch import Tensor

from bertsmith.model.bert import BertModel

LONGEST_WAVE = 1000.0
"""Base of the wavelengths, of which the longest is 2 pi times as many positions. The 10,000 of
Vaswani et al. are too many for rows of 128 tokens: half of the dimensions would be constant."""

AMPLITUDE = 2.8
"""Amplitude of the sinusoids in units of `initializer_range`. At 1.4 to 2 some seeds stay longer on
the first plateau of the loss, at 10 positions drown the word embeddings."""


@torch.no_grad()
def initialize_sinusoidal(model: BertModel) -> None:
    """Initialize position embeddings to sinusoids; they are trained like any weight.

    Neighbouring positions then are alike and every offset is one rotation wherever it is, so that
    heads attend to the previous or next token after a few hundred steps. Random vectors have to be
    learned one position at a time, and a small model stays long on the plateau of token
    frequencies, for how long depends on the seed.
    """
    weight, first = model.embeddings.position.weight, model.config.first_position
    amplitude = AMPLITUDE * model.config.initializer_range
    weight[first:] = amplitude * waves(len(weight) - first, weight.shape[1])


def waves(count: int, width: int) -> Tensor:
    """Compute sinusoids `[count, width]` (Vaswani et al. 2017, section 3.5).

    Sine and cosine alternate, from short to long wavelengths.
    """
    rates = LONGEST_WAVE ** -(torch.arange(0, width, 2) / width)
    angles = torch.arange(count)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]

"""Functions that change a model's weights in place before training."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertsmith.errors import ConfigError
from bertsmith.model.bert import BertModel
from bertsmith.model.heads import MaskedLMHead

MAX_WAVELENGTH = 1000.0
"""Base of the sinusoids' wavelengths; the longest is about 2 pi times this number of positions. The
10,000 of Vaswani et al. is too large for rows of 128 tokens: half of the dimensions would be nearly
constant."""

AMPLITUDE = 2.8
"""Amplitude of the sinusoids in units of `initializer_range`. At 1.4 to 2 some seeds stay longer on
the first plateau of the loss; at 10 the positions outweigh the word embeddings."""
START_SHIFT = 20.0
"""A bias so far above the encoder's outputs that GELU and similar activations are the identity
there: GELU(20) is 20 to the last digit of fp32."""


@torch.no_grad()
def initialize_sinusoidal(model: BertModel) -> None:
    """Initialize position embeddings to sinusoids; they are trained like any weight.

    Neighbouring positions then have similar vectors, and an offset is the same rotation at every
    position, so heads attend to the previous or next token after a few hundred steps. Random
    vectors must be learned position by position: a small model then stays long at the loss of token
    frequencies, and how long depends on the seed.
    """
    position = model.embeddings.position
    first = model.config.first_position
    if position is None:  # rotary positions are sinusoids already
        return
    amplitude = AMPLITUDE * model.config.initializer_range
    rows = position.weight[first:]
    rows.copy_(amplitude * sinusoids(*rows.shape))


def sinusoids(count: int, width: int) -> Tensor:
    """Compute sinusoids `[count, width]` (Vaswani et al. 2017, section 3.5).

    Sine and cosine alternate, from short to long wavelengths.
    """
    rates = MAX_WAVELENGTH ** -(torch.arange(0, width, 2) / width)
    angles = torch.arange(count)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]


def has_own_queries(model: BertModel) -> bool:
    """Return whether the last layer has an attention module of its own, unlike in an ALBERT."""
    *others, last = (layer.attention for layer in model.layers)
    return last not in others


# Heads for whole texts read [CLS], whose attention only the sentence-pair objective trains. After
# short pre-training [CLS] still attends as any masked-LM token does. Resetting whole layers (Zhang
# et al. 2021, section 5) gained no more here and lost more of the pre-trained weights.
def reset_queries(model: BertModel) -> None:
    """Set the last layer's queries to zero, so that its attention is uniform.

    Raises:
        ConfigError: other layers share the last layer's attention.
    """
    if not has_own_queries(model):
        raise ConfigError(
            "The last layer shares its attention with other layers, which would lose it. Choose a "
            "model whose layers have weights of their own."
        )
    qkv = model.layers[-1].attention.qkv
    with torch.no_grad():
        qkv.weight[: qkv.out_features // 3] = 0.0
        if qkv.bias is not None:
            qkv.bias[: qkv.out_features // 3] = 0.0


@torch.no_grad()
def extend_words(model: BertModel, first_id: int, pieces: Sequence[Sequence[int]]) -> None:
    """Initialize new word embeddings to means of their old subword embeddings.

    The masked-LM bias of a new token likewise is the mean of its old tokens' biases. A token
    without old tokens, of characters that the old vocabulary lacks, gets the mean of all rows
    (Hewitt 2021, "Initializing new word embeddings for pretrained language models"). Embedding rows
    beyond the old vocabulary are filled before new rows are added.

    Args:
        first_id: size of the old vocabulary, and so the id of the first new token.
        pieces: old ids of each new token.
    """
    embedding = model.embeddings.word
    rows = extend_rows(embedding.weight.detach(), first_id, pieces)
    model.embeddings.word = nn.Embedding.from_pretrained(  # type: ignore[no-untyped-call]
        rows, freeze=False, padding_idx=embedding.padding_idx
    )
    model.config = replace(model.config, vocab_size=len(rows))
    if "masked_lm" in model.heads:
        head = cast(MaskedLMHead, model.heads["masked_lm"])
        head.bias = nn.Parameter(extend_rows(head.bias.detach()[:, None], first_id, pieces)[:, 0])


def extend_rows(rows: Tensor, first_id: int, pieces: Sequence[Sequence[int]]) -> Tensor:
    """Return `rows` `[tokens, size]` with the rows of new tokens from `first_id` on.

    `pieces` has the old ids of which each new token consists; the new token's row is the mean of
    their rows. Rows beyond those of new tokens stay. If `rows` are too few, the result has more.
    """
    later_rows = rows[first_id + len(pieces) :]
    return torch.cat([rows[:first_id], average_rows(rows[:first_id], pieces), later_rows])


def average_rows(rows: Tensor, pieces: Sequence[Sequence[int]]) -> Tensor:
    """Average the rows of each entry of `pieces`, a list of token ids, to `[entries, size]`.

    An empty entry gets the mean of all rows.
    """
    counts = torch.tensor([len(entry) for entry in pieces], dtype=torch.int64, device=rows.device)
    all_ids = torch.tensor([token_id for entry in pieces for token_id in entry], dtype=torch.int64)
    entry_of_id = torch.arange(len(pieces), device=rows.device).repeat_interleave(counts)
    sums = rows.new_zeros(len(pieces), rows.shape[1])
    sums.index_add_(0, entry_of_id, rows[all_ids.to(rows.device)])
    return torch.where(counts[:, None] > 0, sums / counts.clamp(min=1)[:, None], rows.mean(0))


@torch.no_grad()
def set_positions(model: BertModel, size: int) -> None:
    """Resize the position embeddings to `size` tokens, repeating them from the start.

    Longformer did the same (Beltagy et al. 2020, section 5) and needed little further training:
    attention to near tokens works as before, except where two copies meet.
    """
    embedding = model.embeddings.position
    first = model.config.first_position
    model.config = replace(model.config, max_position_embeddings=first + size)
    if embedding is None:
        return
    weight = embedding.weight.detach()
    rows_before, rows = weight[:first], weight[first:]  # no token has a position below `first`
    num_copies = math.ceil(size / len(rows))
    resized = torch.cat([rows_before, rows.repeat(num_copies, 1)[:size]])
    model.embeddings.position = nn.Embedding.from_pretrained(  # type: ignore[no-untyped-call]
        resized, freeze=False, padding_idx=embedding.padding_idx
    )


@torch.no_grad()
def start_masked_lm_head(head: MaskedLMHead, counts: Tensor) -> None:
    """Initialize a masked-LM head to predict token frequencies from the encoder's vectors.

    The decoder is the word embedding. The bias becomes the logarithm of each token's frequency, so
    the first loss is about that of a unigram model. The dense layer, if it is square and has a
    bias, becomes the identity plus a shift, to where the activation changes nothing. The LayerNorm
    after it subtracts the mean, and so removes the shift.

    Measured with all-MiniLM-L6-v2 on documentation of software: the eval loss begins at 6.7, with a
    random head at 10.6 (a unigram model has 6.4). After 100 steps of 32 rows it is 4.75 instead of
    5.55; with the bias alone it is 5.20.

    Args:
        counts: occurrences of each token, integers or floats `[tokens]`, which may be fewer than
            the embeddings; one is added to each.
    """
    is_square = head.dense.weight.shape[0] == head.dense.weight.shape[1]
    if is_square and head.dense.bias is not None:  # without a shift, GELU is no identity
        nn.init.eye_(head.dense.weight)
        nn.init.constant_(head.dense.bias, START_SHIFT)
    smoothed = F.pad(counts.to(head.bias), (0, len(head.bias) - len(counts))) + 1
    head.bias.copy_((smoothed / smoothed.sum()).log())

"""Choose the number of rows in a micro-batch, which a worker process computes at once.

A *share* is the part of a step that one worker process computes: some of its micro-batches.
"""

import math
import sys

from bertsmith.model.config import BertConfig
from bertsmith.system.matrix_products import DTYPES
from bertsmith.training.machine import Machine
from bertsmith.training.settings import TrainingSettings

MAX_TOKENS = 32 * 128
"""Tokens that a process computes at once on a CPU by default. With twice as many a tiny model
trains no faster; with a quarter as many it trains a sixth slower."""
MAX_KEPT_BYTES = 512 * 10**6
"""Largest number of bytes of activations that a process keeps for the backward pass, unless a
single row needs more: for base, 8 rows of 128 tokens in bf16, 4 in fp32. Activations of a generator
are not included."""


def rows_of_micro_batch(
    training: TrainingSettings, length: int, shape: BertConfig | None, machine: Machine | None
) -> int:
    """Choose the number of rows, of `length` tokens each, in a micro-batch.

    Args:
        length: tokens of each row.
        shape: the config of the model that takes most memory; without it, memory sets no limit.
        machine: the hardware of the run; without it, a step is one micro-batch unless the user set
            its size.
    """
    if training.micro_batch_size is not None or machine is None:
        return min(training.micro_batch_size or training.batch_size, training.batch_size)
    rows_of_share = math.ceil(training.batch_size / machine.num_shares)
    max_rows = min(rows_of_share, rows_in_memory(length, shape, machine))
    return even_rows(training.batch_size, machine.num_shares, max_rows)


def rows_in_memory(length: int, shape: BertConfig | None, machine: Machine) -> int:
    """Return the most rows of `length` tokens that a process computes at once.

    On a CPU the rows have at most `MAX_TOKENS` tokens and keep at most `MAX_KEPT_BYTES`, but one
    row is always allowed. On other devices there is no limit.
    """
    if machine.device.type != "cpu":
        return sys.maxsize
    rows = MAX_TOKENS // length
    if shape is not None:
        bytes_per_row = saved_activations(shape, length, DTYPES[machine.precision].itemsize)
        rows = min(rows, int(MAX_KEPT_BYTES / bytes_per_row))
    return max(1, rows)


def saved_activations(config: BertConfig, length: int, bytes_per_number: int) -> int:
    """Estimate the bytes of activations that a row of `length` tokens keeps for its backward pass.

    For each token a layer keeps 8 vectors of `hidden_size` numbers: its input, query, key, value,
    context (the output of attention), the inputs of both LayerNorms, and the output of the first
    one. With dropout it keeps two masks more (10 vectors). It also keeps the input and output of
    the activation function, of `intermediate_size` numbers (`kept_feed_forward_vectors` counts
    them: with gates there are two more). For each pair of tokens a head keeps the attention weight,
    and with dropout a mask and the product of both. Fused attention keeps less.
    """
    has_dropout = config.hidden_dropout_prob > 0
    per_layer = (10 if has_dropout else 8) * config.hidden_size
    per_layer += config.kept_feed_forward_vectors * config.intermediate_size
    per_embedding = (2 if has_dropout else 1) * config.hidden_size
    numbers_of_tokens = length * (config.num_layers * per_layer + per_embedding)
    num_heads = config.num_layers * config.num_attention_heads
    per_pair = 3 if config.attention_probs_dropout_prob > 0 else 1
    numbers_of_pairs = num_heads * length**2 * per_pair
    return bytes_per_number * (numbers_of_tokens + numbers_of_pairs)


def even_rows(batch_size: int, num_shares: int, max_rows: int) -> int:
    """Choose the rows of a micro-batch, at most `max_rows`, so that shares are about equally large.

    Micro-batches are dealt to shares in turn, and the worker processes of the other shares wait for
    the largest share. So the chosen number is the one with which the largest share has the fewest
    rows. If several numbers do equally well, the largest of them is chosen.

    >>> even_rows(64, num_shares=2, max_rows=13)
    8
    """

    def rows_of_largest_share(rows: int) -> int:
        """Count the rows of the first share, which gets a micro-batch in each turn."""
        first_rows = range(0, batch_size, rows * num_shares)
        return sum(min(rows, batch_size - first) for first in first_rows)

    return min(range(max_rows, 0, -1), key=rows_of_largest_share)

"""Number of rows in a micro-batch, which a worker process computes at once."""

import sys

from bertsmith.model.config import BertConfig
from bertsmith.system.matrix_products import DTYPES
from bertsmith.training.machine import Machine
from bertsmith.training.settings import TrainingSettings

MAX_TOKENS = 32 * 128
"""Tokens that a process computes at once on a CPU by default. With twice as many a tiny model
trains no faster, with a quarter of them a sixth slower."""
MAX_KEPT_BYTES = 512 * 10**6
"""Largest number of bytes of activations that a process keeps for the backward pass, unless a
single row needs more: for base, 8 rows of 128 tokens in bf16, 4 in fp32. Activations of a generator
are not included."""


def rows_of_micro_batch(
    training: TrainingSettings, length: int, shape: BertConfig | None, machine: Machine | None
) -> int:
    """Choose the rows of a micro-batch, of `length` tokens each.

    `shape` is the config of the model that takes most memory; without it, memory sets no limit.
    Without `machine`, a step is one micro-batch.
    """
    if training.micro_batch_size is not None or machine is None:
        return min(training.micro_batch_size or training.batch_size, training.batch_size)
    rows_of_share = -(-training.batch_size // machine.num_shares)
    at_most = min(rows_of_share, rows_in_memory(length, shape, machine))
    return even_rows(training.batch_size, machine.num_shares, at_most)


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

    Each layer keeps per token vectors of H numbers: its input, query, key and value, the context,
    two inputs of LayerNorms and the first one's output (8 vectors), and with dropout two masks
    (10); also input and output of the activation function (`kept_feed_forward_vectors`: with gates
    two more). Each head keeps its weight for each pair of tokens, and with dropout a mask and the
    product of both, where attention is by plain products.
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


def even_rows(batch_size: int, num_shares: int, at_most: int) -> int:
    """Choose the micro-batch rows with which the largest share of a step has fewest rows.

    Of several such numbers, at most `at_most`, the largest is taken. Micro-batches are dealt to
    shares in turn, and the worker processes of the other shares wait for the largest.

    >>> even_rows(64, num_shares=2, at_most=13)
    8
    """

    def rows_of_largest(rows: int) -> int:
        firsts = range(0, batch_size, rows * num_shares)
        return sum(min(rows, batch_size - first) for first in firsts)

    return min(range(at_most, 0, -1), key=rows_of_largest)

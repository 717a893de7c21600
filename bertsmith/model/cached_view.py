"""Key-value caches for generation: each step computes only the new tokens.

The keys and values of these tokens are kept, and later tokens attend to them. The views here fulfil
`AttentionView` (model/attention.py): each says which keys a query sees, and computes attention.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from bertsmith.data.batches import send
from bertsmith.errors import ConfigError
from bertsmith.model import dense_attention
from bertsmith.model.attention import RecordWeights
from bertsmith.model.attention_pattern import CAUSAL
from bertsmith.model.block_cuts import padded_length
from bertsmith.model.blocks import Block, BlockBias
from bertsmith.model.cells import Cells, gather
from bertsmith.model.shape_buckets import fill_up
from bertsmith.system.counts import count_noun


class NewTokens:
    """A packed row of new tokens, one sequence after another, at least one token for each.

    For each sequence, `before` counts the cached tokens, `lengths` the new ones, and `totals` both.
    """

    def __init__(
        self, before: tuple[int, ...], lengths: tuple[int, ...], device: torch.device
    ) -> None:
        self.before = before
        self.lengths = lengths
        self.device = device
        self.totals = tuple(map(sum, zip(before, lengths, strict=True)))

    @cached_property
    def columns(self) -> np.ndarray:
        """The position of each token in its sequence, int64 [tokens]."""
        starts = np.cumsum(self.lengths) - self.lengths
        return np.arange(sum(self.lengths)) + np.repeat(
            np.array(self.before) - starts, self.lengths
        )

    @cached_property
    def grid_indices(self) -> tuple[Tensor, Tensor]:
        """Sequence and column of each token, two int64 [tokens] on the device."""
        sequences = torch.from_numpy(np.repeat(np.arange(len(self.lengths)), self.lengths))
        return send(sequences, self.device), send(torch.from_numpy(self.columns), self.device)

    @cached_property
    def block(self) -> Block:
        """The new tokens as queries; each sees its sequence up to itself."""
        count = len(self.lengths)
        longest = max(self.totals)
        length = padded_length(longest) if self.device.type == "cpu" else longest
        return Block(
            # `columns` are positions in the whole sequence, by which the causal pattern hides keys.
            queries=Cells(
                self.lengths,
                num_rows=count,
                length=max(self.lengths),
                device=self.device,
                columns=self.columns,
            ),
            keys=Cells(self.totals, num_rows=count, length=length, device=self.device),
            pattern=CAUSAL,
        )


class KeyValueCache:
    """The keys and values of all earlier tokens of a causal model, with a view for each layer.

    Call `read` before each forward pass, with the numbers of tokens that the pass computes. During
    the pass the views store the keys and values of these tokens. There are no gradients.
    """

    def __init__(self, num_layers: int, num_sequences: int, device: torch.device) -> None:
        self.device = device
        self.new = NewTokens((), (), device)
        self.lengths = (0,) * num_sequences
        self.views = [CachedView(self) for _ in range(num_layers)]
        self.bias: BlockBias | None = None
        """Numbers that are added to scores, such as T5's by distance."""

    def read(self, lengths: tuple[int, ...]) -> NewTokens:
        """Begin a forward pass that reads `lengths` new tokens of each sequence, at least one."""
        self.new = NewTokens(self.lengths, lengths, self.device)
        self.lengths = self.new.totals
        return self.new

    def views_for(self, num_layers: int) -> list["CachedView"]:
        """Return a view for each layer of a model.

        Raises:
            ConfigError: the cache was made for a model with another number of layers.
        """
        if len(self.views) != num_layers:
            raise ConfigError(
                f"The cache has {count_noun(len(self.views), 'layer')}, the model {num_layers}: it "
                "is that of another model. Make a new cache for each model."
            )
        return self.views

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these sequences, in this order; one may be repeated."""
        self.lengths = tuple(self.lengths[row] for row in rows)
        index = torch.tensor(rows, device=self.device)
        for view in self.views:
            view.keep(index)


class CachedView:
    """A layer's view: each new token sees the cached tokens and the new ones up to itself."""

    def __init__(self, cache: KeyValueCache) -> None:
        self.cache = cache
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        """Keys and values of all tokens so far, [sequences, heads, length, head_size], with a
        `length` of the longest sequence or more; None before the first pass."""

    def keep(self, index: Tensor) -> None:
        """Keep only the sequences `index`, int64."""
        if self.keys is not None and self.values is not None:
            self.keys = self.keys.index_select(0, index)
            self.values = self.values.index_select(0, index)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        dropout_prob: float = 0.0,
        record_weights: RecordWeights | None = None,
    ) -> Tensor:
        """Compute contexts as `AttentionView.attend` does, without dropout and recorded weights.

        All arguments are those of the new tokens; their keys and values are added to the cache.
        """
        assert not dropout_prob and record_weights is None and not torch.is_grad_enabled()
        new = self.cache.new
        block = new.block
        self.keys = _store(self.keys, key, new)
        self.values = _store(self.values, value, new)
        (query,) = gather((query,), (block.queries,))
        length = block.keys.length
        bias = self.cache.bias
        context = dense_attention.attend(
            query,
            self.keys[:, :, :length],
            self.values[:, :, :length],
            block,
            dropout_prob,
            None if bias is None else bias(block),
        )
        return fill_up(block.queries.put_back(context))  # padded to a rounded number of rows


class SourceCache:
    """Keys and values of the source texts, which cross-attention uses at every step.

    There are no gradients.

    Args:
        lengths: tokens of each source.
        layers: keys and values of each decoder layer, both [source tokens, heads, head_size]; they
            may end in padding rows.
    """

    def __init__(
        self,
        lengths: tuple[int, ...],
        layers: Sequence[tuple[Tensor, Tensor]],
        device: torch.device,
    ) -> None:
        self.lengths = lengths
        self.device = device
        cells = self._cells
        self.layers = [gather(pair, (cells, cells)) for pair in layers]
        """Keys and values of each layer, [sequences, heads, length, head_size]."""

    @property
    def _cells(self) -> Cells:
        length = max(self.lengths)
        if self.device.type == "cpu":
            length = padded_length(length)
        return Cells(self.lengths, len(self.lengths), length, self.device)

    def view(self, lengths: tuple[int, ...]) -> "SourceView":
        """Return a view for `lengths` new tokens of each sequence, at least one."""
        queries = Cells(lengths, len(lengths), max(lengths), self.device)
        return SourceView(Block(queries, self._cells))

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these sequences, in this order; one may be repeated."""
        index = torch.tensor(rows, device=self.device)
        self.lengths = tuple(self.lengths[row] for row in rows)
        length = self._cells.length
        self.layers = [
            tuple(part.index_select(0, index)[:, :, :length] for part in layer)
            for layer in self.layers
        ]


class SourceView:
    """A view of cross-attention: each new token sees its whole source in a `SourceCache`."""

    def __init__(self, block: Block) -> None:
        self.block = block

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        dropout_prob: float = 0.0,
        record_weights: RecordWeights | None = None,
    ) -> Tensor:
        """Compute contexts as `AttentionView.attend` does, without dropout and recorded weights.

        `key` and `value` are those of a layer of the cache.
        """
        assert not dropout_prob and record_weights is None and not torch.is_grad_enabled()
        (query,) = gather((query,), (self.block.queries,))
        context = dense_attention.attend(query, key, value, self.block, dropout_prob)
        return fill_up(self.block.queries.put_back(context))  # padded to a rounded number of rows


def _store(stored: Tensor | None, vectors: Tensor, new: NewTokens) -> Tensor:
    """Write the keys or values of new tokens into the array of those that are stored.

    `vectors` is [tokens, heads, head_size], `stored` [sequences, heads, length, head_size].

    Returns:
        `stored`, or a longer copy if it was too short.

    Raises:
        ConfigError: the keys or values that were stored are those of another model.
    """
    num_sequences = len(new.lengths)
    length = new.block.keys.length
    num_heads, head_size = vectors.shape[1:]
    if stored is not None and (stored.shape[1], stored.shape[3]) != (num_heads, head_size):
        raise ConfigError(
            f"The cache has {count_noun(stored.shape[1], 'head')} of {stored.shape[3]} numbers, "
            f"the model {num_heads} of {head_size}: it is that of another model. Make a new cache "
            "for each model."
        )
    if stored is None or stored.shape[2] < length:
        longer = vectors.new_zeros(num_sequences, num_heads, length, head_size)
        if stored is not None:
            longer[:, :, : stored.shape[2]] = stored
        stored = longer
    sequences, columns = new.grid_indices
    stored[sequences, :, columns] = vectors[: len(sequences)]  # without padding rows
    return stored

"""Conversion between padded tensors [batch, length] and the packed row that the model reads.

Padding may be on the left, on the right or between tokens. The model decides a token's position: in
BERT it is the column, as in transformers, so left padding changes the outputs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.errors import InputError

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8)


@dataclass(frozen=True)
class PaddedBatch:
    """A packed batch, and the indices that lead back to the padded shape it came from.

    The packed batch has the longest sequences first, so its order is not that of the padded rows.
    `cells`, int64 [tokens], is each token's index in the flattened [batch, length].
    `sequence_of_row`, int64 [batch], is the index in the packed batch of each padded row.
    """

    batch: Batch
    shape: tuple[int, int]
    cells: Tensor
    sequence_of_row: Tensor

    @classmethod
    def pack(
        cls,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        token_type_ids: Tensor | None,
        max_length: int,
        number_tokens: Callable[[Tensor], Tensor],
    ) -> "PaddedBatch":
        """Take the real tokens out of padded integer tensors [batch, length].

        `number_tokens` computes the positions, int64 [batch, length], of `input_ids`: they differ
        by family.

        Raises:
            InputError: a shape or type that does not fit, more than `max_length` columns, or a row
                without a real token.
        """
        check_tensor("input_ids", input_ids, shape=None)
        if input_ids.shape[1] > max_length:
            raise InputError(
                f"input_ids has {input_ids.shape[1]} columns. This model reads at most "
                f"{max_length} tokens. Truncate the text."
            )
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        check_tensor("token_type_ids", token_type_ids, input_ids.shape)
        mask = as_mask(attention_mask, input_ids)
        lengths, order = mask.sum(1).sort(descending=True, stable=True)
        check_padding(lengths, order)
        row, column = mask[order].nonzero(as_tuple=True)
        cells = order[row] * mask.shape[1] + column
        positions = number_tokens(input_ids)
        batch = Batch(
            input_ids=input_ids.flatten()[cells].long(),
            token_type_ids=token_type_ids.flatten()[cells].long(),
            position_ids=positions[order[row], column],
            lengths=tuple(lengths.tolist()),
            order=tuple(order.tolist()),
            columns=column if has_holes(mask) else None,
        )
        return cls(batch, (mask.shape[0], mask.shape[1]), cells, order.argsort())

    def unpack(self, x: Tensor) -> Tensor:
        """Pad `[tokens, ...]` with zeros to `[batch, length, ...]`; the dtype stays."""
        rows, length = self.shape
        padded = x.new_zeros(rows * length, *x.shape[1:]).index_copy(0, self.cells, x)
        return padded.view(rows, length, *x.shape[1:])

    def repack(self, x: Tensor) -> Tensor:
        """Pack `[batch, length, ...]` to `[tokens, ...]`; the dtype stays."""
        return x.flatten(0, 1)[self.cells]

    def reorder(self, x: Tensor) -> Tensor:
        """Put `[sequences, ...]` in the order of the padded rows, `[batch, ...]`."""
        return x[self.sequence_of_row]

    def unpack_attention(self, blocks: Sequence[Tensor]) -> Tensor:
        """Join the blocks' weights to `[batch, heads, length, length]`, zero at padding.

        A block has the weights of sequences of similar length, `[sequences, heads, length, length]`
        of the longest one, padded at the end. The dtype stays.
        """
        rows, length = self.shape
        padded = blocks[0].new_zeros(rows, length, length, blocks[0].shape[1])
        sequences = (weights for block in blocks for weights in block)
        for row, columns, weights in zip(self.batch.order, self._columns(), sequences, strict=True):
            real = weights[:, : len(columns), : len(columns)]
            padded[row, columns[:, None], columns] = real.permute(1, 2, 0)
        return padded.permute(0, 3, 1, 2)

    def repack_attention(self, padded: Tensor, blocks: Sequence[Tensor]) -> list[Tensor]:
        """Pack attention weights `[batch, heads, length, length]` into the shapes of `blocks`.

        This is the way back from `unpack_attention`. The results are `[sequences, heads, length,
        length]` for each block, in the dtype of `padded`.
        """
        rows_and_columns = zip(self.batch.order, self._columns(), strict=True)
        packed = []
        for block in blocks:
            num_sequences, _, _, length = block.shape
            weights = []
            for row, columns in islice(rows_and_columns, num_sequences):
                real = padded[row][:, columns[:, None], columns]
                num_padding = length - len(columns)
                weights.append(F.pad(real, (0, num_padding, 0, num_padding)))
            packed.append(torch.stack(weights))
        return packed

    def _columns(self) -> tuple[Tensor, ...]:
        """Split the columns of tokens by sequence, in the batch's order."""
        return torch.split(self.cells % self.shape[1], list(self.batch.lengths))

    def check_range(self, name: str, packed: Tensor, size: int) -> None:
        """Refuse packed integers [tokens] that are not all from 0 to below `size`.

        Raises:
            InputError: an integer is out of range; the message names its row and column.
        """
        low, high = packed.aminmax()
        if low >= 0 and high < size:
            return
        first = int(((packed < 0) | (packed >= size)).nonzero()[0])
        row, column = divmod(int(self.cells[first]), self.shape[1])
        raise InputError(
            f"{name}, row {row}, column {column}: found {int(packed[first])}. This model takes "
            f"0 to {size - 1}. Use the tokenizer saved with the model."
        )


def number_columns(input_ids: Tensor) -> Tensor:
    """Number the columns of padded ids from 0, int64 `[batch, length]`."""
    return torch.arange(input_ids.shape[1], device=input_ids.device).expand(input_ids.shape)


def flatten_choices(x: Tensor | None) -> Tensor | None:
    """Turn `[batch, choices, length]` into `[batch * choices, length]`.

    Anything else is returned as it is: the model's own checks refuse it.
    """
    return x.flatten(0, 1) if isinstance(x, Tensor) and x.ndim == 3 else x


def placeholder_ids(input_ids: Tensor | None, inputs_embeds: Tensor, size: int) -> Tensor:
    """Return ids to pack in place of `input_ids`, int64 zeros `[batch, length]`.

    They only give the shape; their embeddings are not used. `inputs_embeds` are the vectors,
    `[batch, length, size]`, that replace the ids' embeddings.

    Raises:
        InputError: `input_ids` are given, too, or the vectors have another shape.
    """
    if input_ids is not None:
        raise InputError("input_ids and inputs_embeds exclude each other. Give one of them.")
    check_is_tensor("inputs_embeds", inputs_embeds)
    if inputs_embeds.ndim != 3 or inputs_embeds.shape[-1] != size:
        raise InputError(
            f"inputs_embeds has the shape {list(inputs_embeds.shape)}. It must be [batch, length, "
            f"{size}]."
        )
    return torch.zeros(inputs_embeds.shape[:2], dtype=torch.int64, device=inputs_embeds.device)


def check_tensor(name: str, x: Tensor, shape: torch.Size | None) -> None:
    """Check that `x` holds integers `[batch, length]`, of the shape `shape` if there is one.

    Raises:
        InputError: `x` is no tensor, has another shape or dtype, or is empty.
    """
    check_is_tensor(name, x)
    if x.ndim != 2 or 0 in x.shape:
        raise InputError(
            f"{name} has the shape {list(x.shape)}. It must be [batch, length], both above 0."
        )
    if x.dtype not in INTEGERS:
        raise InputError(f"{name} holds {x.dtype}. It must hold integers; convert with .long().")
    if shape is not None and x.shape != shape:
        raise InputError(
            f"{name} has the shape {list(x.shape)}, input_ids {list(shape)}. Give both the same."
        )


def check_is_tensor(name: str, x: object, shape: str = "[batch, length]") -> None:
    """Check that `x` is a tensor; the message names the `shape` that it must have.

    Raises:
        InputError: `x` is something else, such as a list or an array.
    """
    if not isinstance(x, Tensor):
        raise InputError(
            f"{name} is a {type(x).__name__}. It must be a tensor {shape}; convert with "
            "torch.tensor()."
        )


def as_mask(attention_mask: Tensor | None, input_ids: Tensor) -> Tensor:
    """Convert the mask to bool `[batch, length]`; without one, every token is real.

    Raises:
        InputError: the mask is no tensor, has another shape than `input_ids`, or holds a number
            other than 0 and 1.
    """
    if attention_mask is None:
        return torch.ones_like(input_ids, dtype=torch.bool)
    check_is_tensor("attention_mask", attention_mask)
    if attention_mask.shape != input_ids.shape:
        raise InputError(
            f"attention_mask has the shape {list(attention_mask.shape)}, input_ids "
            f"{list(input_ids.shape)}. Give both the same."
        )
    mask = attention_mask == 1
    if not torch.equal(mask, attention_mask != 0):
        row, column = (mask != (attention_mask != 0)).nonzero()[0].tolist()
        raise InputError(
            f"attention_mask, row {row}, column {column}: found "
            f"{attention_mask[row, column].item()}. Use 1 for real tokens, 0 for padding."
        )
    return mask


def has_holes(mask: Tensor) -> bool:
    """Return whether a row of a mask [batch, length] has padding between real tokens."""
    begins_run = mask[:, 1:] & ~mask[:, :-1]  # a real token after padding
    num_runs = begins_run.sum(1) + mask[:, 0]
    return bool((num_runs > 1).any())


def check_padding(lengths: Tensor, order: Tensor) -> None:
    """Raise InputError if a row has no real token.

    `lengths`, int64 [batch], are the rows' numbers of real tokens, the largest first; `order` are
    the indices of these rows in the batch.
    """
    if lengths[-1] == 0:
        row = int(order[lengths == 0][0])
        raise InputError(
            f"attention_mask, row {row}: every token is masked. Leave the row out, or unmask "
            "at least one token."
        )

"""A recurrent language model: an LSTM or GRU reads one token after another.

It keeps only a state of fixed size of the earlier tokens (Hochreiter & Schmidhuber 1997; Cho et al.
2014), while attention looks at each of them again. The layers are those of torch. There is dropout
after the word embedding and after each layer (Zaremba et al. 2014). The output layer has the
weights of the word embedding. Inside, a batch is one packed row of real tokens, as in BERT. For the
layers, the tokens are sorted by time step: their position in the sequence, counted from its end
where a layer reads backward.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from bertsmith.data.batches import Batch, send
from bertsmith.lineage.config_checks import check_optional_ids, check_probabilities, check_sizes
from bertsmith.model.dropout import dropout, set_dropout_sequences
from bertsmith.model.trainable import ParameterSpec, TrainableModel
from bertsmith.system.bounds import check_choice

CELLS: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}
MAX_SLOTS_PER_TOKEN = 2
"""Sequences are padded if their table of time steps has at most this many slots for each token."""
State = Any
"""A layer's state after the earlier tokens: [1, sequences, hidden], or two of these for an LSTM."""


@dataclass(frozen=True)
class RecurrentConfig:
    """The config of a recurrent language model.

    Raises:
        ConfigError: a value has the wrong type or is out of range.
    """

    vocab_size: int
    hidden_size: int = 256
    num_layers: int = 2
    cell: Literal["lstm", "gru"] = "lstm"
    dropout: float = 0.1
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    pad_token_id: int | None = None

    def __post_init__(self) -> None:
        check_sizes(self, ("vocab_size", "hidden_size", "num_layers"))
        check_probabilities(self, ("dropout",))
        check_optional_ids(self, ("bos_token_id", "eos_token_id", "pad_token_id"))
        check_choice("cell", self.cell, CELLS)


class TimeOrder:
    """The tokens of a packed row by time step, as recurrent layers read them.

    Layers read padded sequences, in which padding at the end changes no earlier output. torch
    computes a PackedSequence far slower, so one is used only where most slots would be padding.

    Args:
        is_backward: each sequence is read from its last token to its first.
    """

    def __init__(
        self, lengths: tuple[int, ...], device: torch.device, *, is_backward: bool = False
    ) -> None:
        slots, by_time, from_time, counts = _order_by_time(lengths, is_backward)
        self._slots = send(torch.from_numpy(slots), device)
        self._by_time = send(torch.from_numpy(by_time), device)
        self._from_time = send(torch.from_numpy(from_time), device)
        self._counts = torch.from_numpy(counts)
        self._shape = (len(counts), len(lengths))
        self._is_padded = len(counts) * len(lengths) <= MAX_SLOTS_PER_TOKEN * sum(lengths)

    def read(self, layer: Any, hidden: Tensor) -> Tensor:
        """Compute a layer of torch of one direction in fp32, from a zero state for each sequence.

        Both tensors are [tokens, size] in the order of the packed row, and of one dtype.
        """
        assert not layer.bidirectional, "its other direction would begin at padding"
        vectors = hidden.float()
        # With a padded tensor, torch warns that oneDNN does not compute LSTMs with projections,
        # which ELMo has.
        if self._is_padded and not layer.proj_size:
            num_steps, num_sequences = self._shape
            padded = vectors.new_zeros(num_steps * num_sequences, vectors.shape[1])
            padded = padded.index_copy(0, self._slots, vectors).view(num_steps, num_sequences, -1)
            output = layer(padded)[0].flatten(0, 1).index_select(0, self._slots)
        else:
            rows = PackedSequence(vectors.index_select(0, self._by_time), self._counts)
            output = layer(rows)[0].data.index_select(0, self._from_time)
        return output.to(hidden.dtype)


class RecurrentLanguageModel(TrainableModel):
    """A language model that reads from left to right, with a state in place of attention."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = config
        size = config.hidden_size
        # Drawn from N(0, 1), as torch does: with smaller vectors, an LSTM predicts nothing but
        # token frequencies for hundreds of steps.
        self.word = nn.Embedding(config.vocab_size, size)
        cell = CELLS[config.cell]
        self.layers = nn.ModuleList(cell(size, size) for _ in range(config.num_layers))

    def parameter_specs(self) -> list[ParameterSpec]:
        """List the parameters, with how each is stored and updated.

        The layers compute in fp32, as torch computes them on a CPU.
        """
        specs = super().parameter_specs()
        return [replace(spec, fp32_only=spec.name.startswith("layers.")) for spec in specs]

    def encode(self, batch: Batch) -> Tensor:
        """Encode a packed batch to the last layer's vectors, [tokens, hidden]."""
        # After this call, `dropout` draws the mask of each sequence from its own random stream.
        set_dropout_sequences(batch.lengths, batch.step_indices)
        order = TimeOrder(batch.lengths, batch.input_ids.device)
        hidden = self._embed(batch.input_ids)
        for layer in self.layers:
            hidden = self._apply_dropout(order.read(layer, hidden))
        return hidden

    def encode_new(
        self, input_ids: Sequence[Sequence[int]], states: Sequence[State] | None
    ) -> tuple[Tensor, list[State]]:
        """Read at least one new token of each sequence, in evaluation mode.

        Args:
            states: the states of all layers after the earlier tokens; None if there are none.

        Returns:
            The vector of each sequence's last token, [sequences, hidden], and the new states.
        """
        lengths = torch.tensor([len(ids) for ids in input_ids])
        padded = torch.zeros(len(lengths), int(lengths.max()), dtype=torch.int64)
        for row, ids in enumerate(input_ids):
            padded[row, : len(ids)] = torch.tensor(ids)
        hidden = self._embed(padded.to(self.device)).float()
        # A PackedSequence, since a padded tensor would give the states after the padding.
        new_states = []
        for number, layer in enumerate(self.layers):
            rows = pack_padded_sequence(hidden, lengths, batch_first=True, enforce_sorted=False)
            output, state = layer(rows, None if states is None else states[number])
            hidden = pad_packed_sequence(output, batch_first=True)[0]
            new_states.append(state)
        last = hidden[torch.arange(len(lengths)), lengths - 1]
        return last.to(self.word.weight.dtype), new_states

    def compute_logits(self, hidden: Tensor) -> Tensor:
        """Return for each token the logits of the token that follows it, [tokens, vocabulary]."""
        return F.linear(hidden, self.word.weight)

    def _embed(self, input_ids: Tensor) -> Tensor:
        return self._apply_dropout(self.word(input_ids))

    def _apply_dropout(self, hidden: Tensor) -> Tensor:
        return dropout(hidden, self.config.dropout, self.training)


def select_sequences(state: State, index: Tensor) -> State:
    """Return a layer's state of some sequences, in the order of `index`, int64."""
    if isinstance(state, tuple):
        return tuple(part.index_select(1, index) for part in state)
    return state.index_select(1, index)


def _order_by_time(
    lengths: tuple[int, ...], is_backward: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Sort the tokens of a packed row by time step, and the tokens of one step by sequence.

    Args:
        lengths: the length of each sequence, the longest first.
        is_backward: time steps count from the end of a sequence.

    Returns:
        Four arrays of int64. The slot of each token in a table [steps, sequences], [tokens]; the
        tokens in the order of these slots, [tokens]; the inverse of that order, [tokens]; and the
        number of sequences that have a token at each step, [steps].

    >>> [array.tolist() for array in _order_by_time((3, 1))]
    [[0, 2, 4, 1], [0, 3, 1, 2], [0, 2, 3, 1], [2, 1, 1]]
    >>> _order_by_time((3, 1), is_backward=True)[0].tolist()
    [4, 2, 0, 1]
    """
    all_lengths = np.asarray(lengths, dtype=np.int64)
    starts = np.cumsum(all_lengths) - all_lengths
    steps = np.arange(all_lengths.sum()) - np.repeat(starts, all_lengths)
    if is_backward:
        steps = np.repeat(all_lengths, all_lengths) - 1 - steps
    sequences = np.repeat(np.arange(len(lengths)), all_lengths)
    slots = steps * len(lengths) + sequences
    by_time = np.argsort(slots)
    from_time = np.empty_like(by_time)
    from_time[by_time] = np.arange(len(by_time))
    return slots, by_time, from_time, np.bincount(steps)

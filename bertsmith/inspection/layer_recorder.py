"""A recorder of hidden states and attention weights by layer, which can switch heads off.

An encoder calls its recorder in each layer.
"""

from collections.abc import Callable, Collection, Sequence

from torch import Tensor

from bertsmith.model.output_recorder import OutputRecorder

AttentionHead = tuple[int, int]
"""An attention head: its layer and its number there, both from 0."""
ReceiveWeights = Callable[[int, Sequence[Tensor]], object]
"""Receives the number of a layer, from 0, and its attention weights. These are [sequences, heads,
length, length] for each block; a block is some sequences of the packed row, padded to one length.
"""


class LayerRecorder(OutputRecorder):
    """A recorder for packed rows, which stores hidden states without padding.

    `hidden_states` are the vectors that enter the first layer, and those that leave each layer,
    [tokens, hidden]. Attention weights are passed to `receive` as they are computed. A head of
    `without` adds nothing to its layer: its weights are set to zero after `receive` has them.
    """

    def __init__(
        self, receive: ReceiveWeights | None = None, without: Collection[AttentionHead] = ()
    ) -> None:
        super().__init__(hidden_states=[], attentions=[])
        self.receive = receive
        self.without = without
        self._layer = 0

    def record_hidden(self, hidden: Tensor, num_tokens: int) -> Tensor:
        """Store the vectors that enter or leave a layer; the encoder calls this for each."""
        assert self.hidden_states is not None
        self.hidden_states.append(hidden[:num_tokens])
        return hidden

    def record_attention(self, blocks: Sequence[Tensor]) -> list[Tensor]:
        """Pass on a layer's weights, and return those to use; layers call this one by one."""
        if self.receive is not None:
            self.receive(self._layer, blocks)
        disabled = [head for layer, head in self.without if layer == self._layer]
        self._layer += 1
        if not disabled:
            return list(blocks)
        changed = [weights.clone() for weights in blocks]
        for weights in changed:
            weights[:, disabled] = 0
        return changed

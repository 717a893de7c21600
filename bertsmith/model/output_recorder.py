"""Recording of hidden states and attention weights while a model computes."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from bertsmith.model.padding import PaddedBatch
from bertsmith.model.shape_buckets import fill_up


@dataclass
class OutputRecorder:
    """Records hidden states and attention weights; a list is None if the caller does not want it.

    Outputs are stored as padded tensors, for which `padded` is needed. The model continues with
    what is packed again from these tensors. So the stored tensors are part of the graph, and get
    gradients.
    """

    hidden_states: list[Tensor] | None = None
    attentions: list[Tensor] | None = None
    padded: PaddedBatch | None = None

    def record_hidden(self, hidden: Tensor, num_tokens: int) -> Tensor:
        """Store the input of the first layer or the output of a layer, if hidden states are wanted.

        `hidden` is [tokens, hidden]; rows beyond `num_tokens` only fill the packed row up
        (`fill_up`) and are not stored.

        Returns:
            Vectors for the next layer, filled up again.
        """
        if self.hidden_states is None:
            return hidden
        hidden = hidden[:num_tokens]
        assert self.padded is not None
        self.hidden_states.append(self.padded.unpack(hidden))
        return fill_up(self.padded.repack(self.hidden_states[-1]))

    def record_attention(self, blocks: Sequence[Tensor]) -> list[Tensor]:
        """Store a layer's attention weights, as `PaddedBatch.unpack_attention` pads them.

        Called only if attention weights are wanted. `blocks` and the result have [sequences, heads,
        length, length] for each block, in one dtype.
        """
        assert self.attentions is not None
        assert self.padded is not None
        self.attentions.append(self.padded.unpack_attention(blocks))
        return self.padded.repack_attention(self.attentions[-1], blocks)

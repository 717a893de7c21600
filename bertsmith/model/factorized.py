"""Embeddings that are narrower than the layers (Lan et al. 2020, section 3.1).

What a word means by itself needs fewer numbers than what it means in its place, so the words, most
of a small model's weights, have vectors of their own width, and one matrix makes them wider.
"""

from torch import Tensor, nn

from bertsmith.data.batches import Batch
from bertsmith.model.bert import BertConfig, Embeddings
from bertsmith.model.sizes import fill_up


class FactorizedEmbeddings(Embeddings):
    """BERT's embeddings at `embedding_size`, then a dense layer to `hidden_size`."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.project = nn.Linear(config.embedding_size, config.hidden_size)

    def forward(self, batch: Batch, words: Tensor | None = None) -> Tensor:
        """[tokens, hidden], filled up with rows that mean nothing; see `fill_up`."""
        return self.project(fill_up(super().forward(batch, words)))  # type: ignore[no-any-return]

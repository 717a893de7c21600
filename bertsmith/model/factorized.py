"""Factorized embeddings: narrower than the layers (Lan et al. 2020, section 3.1).

Context-free word vectors need fewer dimensions than contextual ones, and they are most of a small
model's weights.
"""

from torch import Tensor, nn

from bertsmith.data.batches import Batch
from bertsmith.model.bert import BertConfig, Embeddings
from bertsmith.model.shape_buckets import fill_up


class FactorizedEmbeddings(Embeddings):
    """BERT's embeddings at `embedding_size`, then a dense layer to `hidden_size`."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.project = nn.Linear(config.embedding_size, config.hidden_size)

    def forward(self, batch: Batch, words: Tensor | None = None) -> Tensor:
        """Return [tokens, hidden], which may end in padding rows; see `fill_up`."""
        return self.project(fill_up(super().forward(batch, words)))  # type: ignore[no-any-return]

"""A view of one's own computes attention for the layers that we have."""

import torch
import torch.nn.functional as F
from torch import Tensor

from bertsmith.model.attention import RecordWeights, SelfAttention
from bertsmith.model.row_layout import RowLayout

COUNT, LENGTH = 3, 16


class DenseView:
    """Sequences of one length, as a dense array without padding."""

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        dropout_prob: float = 0.0,
        record_weights: RecordWeights | None = None,
    ) -> Tensor:
        assert record_weights is None
        heads = (part.unflatten(0, (COUNT, LENGTH)).transpose(1, 2) for part in (query, key, value))
        context = F.scaled_dot_product_attention(*heads, dropout_p=dropout_prob)
        return context.transpose(1, 2).reshape(len(query), -1)


def test_a_dense_view_gives_what_the_packed_one_gives() -> None:
    torch.manual_seed(0)
    attention = SelfAttention(24, 3, 0.0)
    hidden = torch.randn(COUNT * LENGTH, 24)
    packed = attention(hidden, RowLayout((LENGTH,) * COUNT, torch.device("cpu")).view())
    torch.testing.assert_close(attention(hidden, DenseView()), packed, atol=1e-6, rtol=0.0)

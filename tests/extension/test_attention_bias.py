"""A layer of one's own adds a bias to the scores of attention: ALiBi, in place of positions."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from tiny_models import save_tiny_of, tiny_config, tiny_tokenizer, write_reviews
from torch import Tensor

from bertsmith import TextClassifier, load
from bertsmith.data.batches import send
from bertsmith.model.attention import RecordWeights
from bertsmith.model.blocks import Block
from bertsmith.model.config import BertConfig
from bertsmith.model.families import FAMILIES
from bertsmith.model.families.bert import BERT
from bertsmith.model.family import build_layers
from bertsmith.model.layers import TransformerLayer
from bertsmith.model.packed_row import PickedTokens
from bertsmith.model.row_layout import RowLayout


@dataclass(frozen=True)
class DistancePenalty:
    """ALiBi (Press et al. 2022, section 3): each head subtracts the distance of query
    and key times a slope of its own. In an encoder, the distance counts on both sides."""

    num_heads: int

    def __call__(self, block: Block) -> Tensor:
        """Return the numbers to add to scores, fp32 [rows or 1, heads, queries, keys]."""
        queries, keys = block.queries.cell_columns, block.keys.cell_columns
        distances = np.abs(keys[..., None, :] - queries[..., :, None])
        slopes = 2.0 ** (-8 * np.arange(1, self.num_heads + 1) / self.num_heads)
        penalties = -slopes[:, None, None] * distances[..., None, :, :]
        bias = torch.from_numpy(penalties.astype(np.float32))
        return send(bias.reshape(-1, *bias.shape[-3:]), block.keys.device)


class AlibiLayer(TransformerLayer):
    def __init__(self, config: BertConfig, number: int = 0) -> None:
        super().__init__(config, number)
        self.bias = DistancePenalty(config.num_attention_heads)

    def attend(
        self,
        hidden: Tensor,  # [tokens, hidden]
        layout: RowLayout,
        record_weights: RecordWeights | None,
        picked: PickedTokens | None,
    ) -> Tensor:  # [tokens, hidden], or with `picked` [sequences, hidden]
        view = layout.view(self.pattern, picked, self.bias)
        return self.attention(hidden, view, record_weights)


@dataclass(unsafe_hash=True)
class AlibiConfig(BertConfig):
    model_type: ClassVar[str] = "alibi"
    has_position_embedding: ClassVar[bool] = False


ALIBI = replace(
    BERT,
    config=AlibiConfig,
    base_model_prefix="bert",
    build_layers=lambda config: build_layers(config, AlibiLayer),
)

LENGTHS = (7, 5, 5, 2, 1)


def plain_attention(attention, hidden: Tensor) -> Tensor:
    """Write out the formula for one sequence, [tokens, hidden], in fp32."""
    qkv = attention.qkv(hidden).view(len(hidden), 3, attention.num_heads, -1)
    query, key, value = qkv.permute(1, 2, 0, 3)
    heads = torch.arange(1, attention.num_heads + 1)
    slopes, place = 2 ** (-8 * heads / attention.num_heads), torch.arange(len(hidden))
    scores = query @ key.transpose(1, 2) / query.shape[-1] ** 0.5
    scores = scores - slopes[:, None, None] * (place[:, None] - place).abs()
    return attention.output((scores.softmax(-1) @ value).transpose(0, 1).flatten(1))


def test_scores_are_lower_by_slope_times_distance() -> None:
    torch.manual_seed(0)
    config = tiny_config()
    layer = AlibiLayer(config).eval()
    hidden = torch.randn(sum(LENGTHS), config.hidden_size, requires_grad=True)
    expected = [plain_attention(layer.attention, part) for part in hidden.split(LENGTHS)]
    layout = RowLayout(LENGTHS, torch.device("cpu"))
    attended = layer.attend(hidden, layout, None, None)[: len(hidden)]
    torch.testing.assert_close(attended, torch.cat(expected), atol=1e-5, rtol=1e-5)
    weights = torch.randn_like(attended)
    gradients = [
        torch.autograd.grad((weights * each).sum(), hidden)[0]
        for each in (attended, torch.cat(expected))
    ]
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)
    for picked, index in ((layout.pick("first"), 0), (layout.pick("last"), -1)):
        attended = layer.attend(hidden, layout, None, picked)[: len(LENGTHS)]
        chosen = torch.stack([part[index] for part in expected])
        torch.testing.assert_close(attended, chosen, atol=1e-5, rtol=1e-5)
    assert layout.view(bias=layer.bias) is layout.view(bias=AlibiLayer(config).bias)
    assert layout.view(bias=layer.bias) is not layout.view()
    [block, *_] = layout.view().blocks
    slopes = -DistancePenalty(8)(block)[0, :, 0, 1]
    assert slopes.tolist() == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]


def test_the_family_is_fine_tuned_and_tells_the_order_of_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FAMILIES, "alibi", ALIBI)
    model = save_tiny_of(tmp_path / "model", "alibi", tokenizer=tiny_tokenizer())
    classifier = TextClassifier(
        model, out=tmp_path / "out", steps=2, device="cpu", precision="fp32", threads=1, verbose=0
    )
    classifier.fit(write_reviews(tmp_path / "reviews.csv", 40), eval=None)
    again = load(tmp_path / "out", device="cpu", precision="fp32")
    texts = ["good film the story was bad", "bad film the story was good"]
    probabilities = again.probabilities(texts)
    assert probabilities.tolist() == classifier.predict_proba(texts).tolist()
    assert abs(probabilities[0] - probabilities[1]).max() > 1e-6

"""Position embeddings that begin as waves: neighbours are alike, distances the same everywhere."""

from collections.abc import Callable

import pytest
import torch

from bertsmith.model.bert import BertModel
from bertsmith.model.electra_pair import new_pair
from bertsmith.model.families.electra import ElectraConfig
from bertsmith.model.families.roberta import RobertaConfig
from bertsmith.model.sinusoidal_positions import initialize_sinusoidal, waves

Build = Callable[..., BertModel]

SIZES = {
    "vocab_size": 101,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 37,
    "max_position_embeddings": 29,
}


def test_a_distance_is_the_same_rotation_everywhere() -> None:
    rows = waves(200, 64).double()
    products = rows @ rows.T
    for distance in (0, 1, 7, 50):
        found = products.diagonal(distance)
        torch.testing.assert_close(found, found[0].expand(200 - distance), atol=1e-3, rtol=0)
    nearest = products[100].argsort(descending=True)[:5].sort().values
    assert nearest.tolist() == [98, 99, 100, 101, 102]


@pytest.mark.parametrize("width", [6, 5])
def test_waves_are_those_of_the_paper_but_for_their_length(width: int) -> None:
    rows = waves(30, width)
    assert rows.shape == (30, width)
    for position in (0, 1, 17):
        for place, found in enumerate(rows[position]):
            angle = torch.tensor(position / 1000 ** (place // 2 * 2 / width))
            expected = angle.cos() if place % 2 else angle.sin()
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_only_positions_change(small_model: Build) -> None:
    model = small_model("masked_lm", initializer_range=0.05)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    initialize_sinusoidal(model)
    after = model.state_dict()
    changed = {name for name, weight in before.items() if not torch.equal(weight, after[name])}
    assert changed == {"embeddings.position.weight"}
    weight = model.embeddings.position.weight
    assert weight.requires_grad
    assert weight.abs().max().item() == pytest.approx(0.14, rel=0.01)


def test_rows_before_the_first_position_stay() -> None:
    model = BertModel(RobertaConfig(**SIZES, pad_token_id=1), {})
    before = model.embeddings.position.weight.detach().clone()
    initialize_sinusoidal(model)
    after = model.embeddings.position.weight
    assert torch.equal(after[:2], before[:2])
    torch.testing.assert_close(after[2:] / after[2, 1], waves(27, 32))


def test_both_models_of_a_pair_begin_with_them() -> None:
    pair = new_pair(ElectraConfig(**SIZES, embedding_size=12), 0.5)
    initialize_sinusoidal(pair)
    weight = pair.generator.embeddings.position.weight
    assert weight is pair.embeddings.position.weight
    torch.testing.assert_close(weight / weight[0, 1], waves(29, 12))

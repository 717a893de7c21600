"""Position embeddings that begin as waves: neighbours are alike, distances the same everywhere."""

import pytest
import torch

from bertsmith.model.bert import BertModel
from bertsmith.model.electra_pair import new_pair
from bertsmith.model.families.electra import ElectraConfig
from bertsmith.model.families.roberta import RobertaConfig
from bertsmith.model.reinitialize import initialize_sinusoidal, waves


def test_a_distance_is_the_same_rotation_everywhere():
    rows = waves(200, 64).double()
    products = rows @ rows.T
    for distance in (0, 1, 7, 50):
        found = products.diagonal(distance)
        torch.testing.assert_close(found, found[0].expand(200 - distance), atol=1e-3, rtol=0)
    nearest = products[100].argsort(descending=True)[:5].sort().values
    assert nearest.tolist() == [98, 99, 100, 101, 102]


def test_only_positions_change_from_the_first_that_is_used(small_model):
    model = small_model("masked_lm", initializer_range=0.05)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    initialize_sinusoidal(model)
    after = model.state_dict()
    changed = {name for name, weight in before.items() if not torch.equal(weight, after[name])}
    assert changed == {"embeddings.position.weight"}
    assert model.embeddings.position.weight.abs().max().item() == pytest.approx(0.14, rel=0.01)

    sizes = (101, 32, 1, 2, 37)
    model = BertModel(RobertaConfig(*sizes, max_position_embeddings=29, pad_token_id=1), {})
    before = model.embeddings.position.weight.detach().clone()
    initialize_sinusoidal(model)
    after = model.embeddings.position.weight
    assert torch.equal(after[:2], before[:2])
    torch.testing.assert_close(after[2:] / after[2, 1], waves(27, 32))

    pair = new_pair(ElectraConfig(*sizes, embedding_size=12), 0.5)
    initialize_sinusoidal(pair)
    weight = pair.generator.embeddings.position.weight
    assert weight is pair.embeddings.position.weight
    torch.testing.assert_close(weight / weight[0, 1], waves(len(weight), 12))

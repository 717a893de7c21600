"""A model whose weights are mapped where they lie; and what its last layer gives."""

import pickle

import pytest
import torch
from limits import file_size_limit
from tiny_models import tiny_model

from bertsmith.errors import ConfigError
from bertsmith.model.shared import SharedFile, SharedModel


def test_weights_are_sent_by_their_place_and_keep_types_and_mode():
    model = tiny_model("classify", num_labels=3, hidden_size=96).to(torch.bfloat16).train()
    model.heads.float()
    expected = {name: weight.clone() for name, weight in model.state_dict().items()}
    shared = SharedModel(model)
    pickled = pickle.dumps(shared)
    assert len(pickled) < sum(p.nbytes for p in model.parameters()) / 2
    copy = pickle.loads(pickled).model
    assert copy.training and not any(p.requires_grad for p in copy.parameters())
    for name, weight in expected.items():
        assert copy.state_dict()[name].dtype == weight.dtype
        assert torch.equal(copy.state_dict()[name], weight), name
    with torch.no_grad():
        shared.model.layers[1].feed_forward.up.bias[5] = 41.0
    assert copy.layers[1].feed_forward.up.bias[5] == 41.0


def test_a_limit_on_the_size_of_files_is_named():
    said = r"2\.0 MB that processes share.*ulimit -f"
    with pytest.raises(ConfigError, match=said), file_size_limit(100_000):
        SharedFile(2_000_000)

"""Models without values: shapes alone, and nothing imported to fill them."""

import pytest
import torch
from torch import nn

from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.meta_init import skeleton, without_values


def test_a_skeleton_has_shapes_alone():
    config = BertConfig(29, 8, 2, 2, 12)
    with skeleton():
        model = BertModel(config)
    assert shapes(model) == shapes(BertModel(config))
    assert all(value.is_meta for value in model.parameters())


def test_a_copy_without_values_is_the_same_model_but_for_them(monkeypatch):
    model = BertModel(BertConfig(29, 8, 2, 2, 12)).eval()
    model.embeddings.word.weight.requires_grad_(False)
    model.layers[1].attention.qkv.bias = model.layers[0].attention.qkv.bias
    for kind in (torch.Tensor, nn.Parameter):
        monkeypatch.setattr(kind, "__deepcopy__", lambda *_: pytest.fail("copied values"))
    copied = without_values(model)
    assert not any(value.is_meta for value in model.state_dict().values())
    assert shapes(copied) == shapes(model)
    assert all(value.is_meta for value in copied.state_dict().values())
    frozen = [name for name, p in copied.named_parameters() if not p.requires_grad]
    assert frozen == ["embeddings.word.weight"]
    assert len(list(copied.parameters())) == len(list(model.parameters()))  # one is in two
    assert not copied.training and copied.config == model.config


def shapes(model):
    return {name: value.shape for name, value in model.state_dict().items()}

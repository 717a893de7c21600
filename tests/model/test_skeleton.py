"""Models without values: shapes alone, and nothing imported to fill them."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.meta_init import without_values

SCRIPT = """
import sys
import torch
from bertsmith.model.config import BertConfig
from bertsmith.model.bert import BertModel
from bertsmith.model.meta_init import skeleton

config = BertConfig(29, 8, 2, 2, 12)
with skeleton():
    model = BertModel(config)
shapes = {name: value.shape for name, value in BertModel(config).state_dict().items()}
assert {name: value.shape for name, value in model.state_dict().items()} == shapes
assert all(value.is_meta for value in model.parameters())
assert "torch._dynamo" not in sys.modules
"""


def test_a_skeleton_has_shapes_and_needs_no_compiler() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_copy_without_values_is_the_same_model_but_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = BertModel(BertConfig(29, 8, 2, 2, 12)).eval()
    model.embeddings.word.weight.requires_grad_(False)
    model.layers[1].register_buffer("mask", torch.ones(3))
    model.layers[1].attention.qkv.bias = model.layers[0].attention.qkv.bias  # type: ignore[union-attr]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for kind in (torch.Tensor, nn.Parameter):
        monkeypatch.setattr(kind, "__deepcopy__", lambda *_: pytest.fail("copied values"))
    copied = without_values(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    shapes = {name: value.shape for name, value in copied.state_dict().items()}
    assert shapes == {name: value.shape for name, value in before.items()}
    assert all(value.is_meta for value in copied.state_dict().values())
    assert [name for name, p in copied.named_parameters() if not p.requires_grad] == [
        "embeddings.word.weight"
    ]
    assert all(isinstance(value, nn.Parameter) for value in copied.parameters())
    assert len(list(copied.parameters())) == len(list(model.parameters()))  # one is in two
    assert not copied.training and copied.config == model.config

"""Prepacked linear layers, which are packed again for the processor that unpickles them."""

import os
import pickle
import subprocess
import sys

import pytest
import torch
from tiny_models import tiny_model

from bertsmith.model.prepacked import can_prepack, prepack
from bertsmith.tasks.inference import set_dtype

PROGRAM = """
import pickle, sys
import torch
from bertsmith.system.matrix_products import multiplies_bf16
with open(sys.argv[1], "rb") as file:
    layer = pickle.load(file)
product = layer(torch.load(sys.argv[2]))
assert product.dtype == torch.bfloat16
torch.save(product, sys.argv[3])
print(multiplies_bf16(), layer.product_dtype)
"""


@pytest.mark.same_on_all_computers
@pytest.mark.skipif(not can_prepack(), reason="this torch cannot prepack layers")
def test_a_bf16_layer_is_unpickled_for_the_processor_that_opens_it(tmp_path):
    """Here a processor that does not multiply in bf16."""
    model = tiny_model()
    plain = model.layers[0].feed_forward.up
    expected = torch.nn.Linear(plain.in_features, plain.out_features)
    expected.load_state_dict(plain.state_dict())
    set_dtype(model, torch.bfloat16)
    prepack(model)
    x = torch.randn(7, plain.in_features, generator=torch.Generator().manual_seed(0)).bfloat16()
    files = [str(tmp_path / name) for name in ("layer", "x", "product")]
    (tmp_path / "layer").write_bytes(pickle.dumps(model.layers[0].feed_forward.up))
    torch.save(x, files[1])
    without_bf16 = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"}
    command = [sys.executable, "-c", PROGRAM, *files]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=without_bf16)
    assert done.stdout.split() == ["False", "torch.float32"]
    with torch.no_grad():
        product = expected.bfloat16()(x)
    torch.testing.assert_close(torch.load(files[2]).float(), product.float(), rtol=0.02, atol=0.02)

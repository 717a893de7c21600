"""Models without values: shapes alone, and nothing imported to fill them."""

import subprocess
import sys

SCRIPT = """
import sys
import torch
from bertsmith.model.bert import BertConfig, BertModel
from bertsmith.model.skeleton import skeleton

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

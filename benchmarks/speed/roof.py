"""The roof: the speed of plain matrix products on this machine, measured beside the models.

The products are so large that arithmetic alone limits them. A model's share of the roof is the
number of useful operations that it does in a second, divided by that of the products. Useful are
operations for real tokens, and for masked-LM logits at the predicted positions.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.speed.contest import Contender
from benchmarks.speed.protocol import Gate

PREFIX = "matrix products"
SHAPE = (2048, 1024, 1024)
"""Rows, inputs and outputs of the product; other large shapes are within 5 % of it."""


TURN_SECONDS = 0.5


def contenders() -> list[Contender]:
    """Return the products in both number formats as contenders; their amount is in FLOPs."""
    target = "benchmarks.speed.roof:products"
    return [
        Contender(f"{PREFIX} {precision}", target, {"precision": precision}, seconds=TURN_SECONDS)
        for precision in ("bf16", "fp32")
    ]


def products(gate: Gate, *, precision: str) -> None:
    """Multiply two matrices at each step of the gate."""
    import torch
    import torch.nn.functional as F

    from bertsmith.system.compute import Compute
    from bertsmith.system.hardware import compute_settings

    rows, inputs, outputs = SHAPE
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    left, weight = torch.randn(rows, inputs).to(dtype), torch.randn(outputs, inputs).to(dtype)
    with compute_settings(Compute(device="cpu")), torch.inference_mode():
        gate.wait(precision=precision)
        while True:
            F.linear(left, weight)
            gate.step(2 * rows * inputs * outputs)


def training_flops_per_token(
    config: Mapping[str, Any], lengths: Sequence[int], num_predicted: int
) -> float:
    """Compute the FLOPs of a training step per real token; a multiply-add is two.

    In the forward pass, the encoder needs `24 H² + 4 S H` per layer and token, where S is the
    length of the token's row, and the masked-LM head `2 H² + 2 H V` per predicted position. The
    backward pass needs twice as many as the forward pass.

    >>> config = {"num_hidden_layers": 2, "hidden_size": 10, "vocab_size": 100}
    >>> training_flops_per_token(config, [4, 4], num_predicted=0)
    15360.0
    """
    layers, width, words = (
        config[name] for name in ("num_hidden_layers", "hidden_size", "vocab_size")
    )
    tokens = sum(lengths)
    seen = sum(length**2 for length in lengths) / tokens
    encoder = layers * (24 * width**2 + 4 * seen * width)
    head = num_predicted / tokens * (2 * width**2 + 2 * width * words)
    return float(3 * (encoder + head))

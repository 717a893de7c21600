"""Faster linear layers for inference on a CPU: weights in the order in which oneDNN multiplies."""

from typing import Any

import torch
from torch import Tensor, nn

from bertsmith.model.bert import BertModel
from bertsmith.model.linear_layers import replace_linears
from bertsmith.system.matrix_products import has_onednn, multiplies_bf16


class _PrepackedLinear(nn.Module):
    """A linear layer whose weight is stored in oneDNN's order, in fp32 or bf16 as before."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.dtype = linear.weight.dtype
        self._pack(linear.weight.detach(), None if linear.bias is None else linear.bias.detach())

    def _pack(self, weight: Tensor, bias: Tensor | None) -> None:
        """Store weight and bias in the dtype in which this processor multiplies."""
        is_upcast = self.dtype == torch.bfloat16 and not multiplies_bf16()
        self.product_dtype = torch.float32 if is_upcast else self.dtype
        self.bias = None if bias is None else bias.to(self.product_dtype)
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.to(self.product_dtype))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with the weight in plain order, since a packed one cannot be pickled."""
        return {**self.__dict__, "weight": self.weight.to_dense()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Pack the weight for this processor, which may differ from the one that pickled it."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._pack(self.weight, self.bias)

    def forward(self, x: Tensor) -> Tensor:
        # "none" and what follows: no operation after the product.
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            x.to(self.product_dtype), self.weight, self.bias, "none", [], ""
        )
        return product.to(self.dtype)


def can_prepack() -> bool:
    """Return whether this build of torch multiplies by oneDNN with packed weights."""
    return has_onednn() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


# oneDNN reorders a plain weight at each call. Reordered once, products are 15 to 20 % faster in
# fp32 and 7 to 15 % in bf16 (one thread of a Zen 4). If the processor does not multiply in bf16,
# torch's own product takes 80 times as long as in fp32 (Zen 3). So a bf16 weight is packed there as
# fp32, and only the result is rounded. A prepacked model can be neither trained nor saved.
def prepack(model: BertModel) -> None:
    """Replace the encoder's linear layers by prepacked ones of the same dtype, if torch can."""
    if can_prepack():
        replace_linears(model, lambda module, name, linear: _PrepackedLinear(linear))

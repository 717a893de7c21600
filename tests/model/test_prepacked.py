"""A model prepared for reading gives the numbers of the one it was made from."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from bertsmith.model.bert import BertModel
from bertsmith.model.int8 import can_quantize
from bertsmith.model.onednn_weights import can_prepack, prepack, quantize

Build = Callable[..., BertModel]
Inputs = dict[str, Tensor]


@pytest.mark.skipif(not can_prepack(), reason="this torch has no oneDNN")
def test_prepacked_fp32_is_the_same(small_model: Build, padded_inputs: Inputs) -> None:
    model = small_model("masked_lm", "next_sentence")
    packed = copy.deepcopy(model)
    prepack(packed)
    with torch.inference_mode():
        found, expected = packed(**padded_inputs), model(**padded_inputs)
    for name in ("last_hidden_state", "pooler_output", "logits", "next_sentence_logits"):
        torch.testing.assert_close(
            getattr(found, name), getattr(expected, name), atol=1e-5, rtol=0.0
        )


@pytest.mark.skipif(not can_prepack(), reason="this torch has no oneDNN")
def test_prepacked_bf16_rounds_as_bf16_does(small_model: Build, padded_inputs: Inputs) -> None:
    model = small_model()
    packed = copy.deepcopy(model).to(torch.bfloat16)
    prepack(packed)
    with torch.inference_mode():
        found = packed(**padded_inputs).last_hidden_state.float()
        expected = model(**padded_inputs).last_hidden_state
    assert (found - expected).norm() < 0.02 * expected.norm()


@pytest.mark.skipif(not can_quantize(), reason="this torch has no int8 kernels")
@pytest.mark.parametrize("attention_dtype", [torch.float32, torch.bfloat16])
def test_int8_stays_close_to_fp32(
    small_model: Build, padded_inputs: Inputs, attention_dtype: torch.dtype
) -> None:
    """Weights and inputs of 8 bits: two layers of wide random weights may differ by 4 per cent."""
    model = small_model()
    rounded = copy.deepcopy(model)
    quantize(rounded, attention_dtype)
    with torch.inference_mode():
        found = rounded(**padded_inputs).last_hidden_state
        expected = model(**padded_inputs).last_hidden_state
    assert found.dtype == torch.float32
    assert (found - expected).norm() < 0.04 * expected.norm()
    cosine = torch.cosine_similarity(found, expected, dim=-1)[padded_inputs["attention_mask"] == 1]
    assert cosine.min() > 0.998

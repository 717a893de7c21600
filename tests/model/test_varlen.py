"""Trying torch's kernel for whole rows: what is missing is told, and nothing is changed."""

import pytest
import torch
import torch.nn.functional as F

from bertsmith.model import varlen

CPU = torch.device("cpu")


def test_where_the_kernel_is_missing_the_trial_says_why() -> None:
    """On a CPU there is none, so the trial goes as on a GPU for which it was not built."""
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    with torch.inference_mode():
        with pytest.raises(NotImplementedError, match="flash_attention"):
            varlen.try_varlen(CPU)
        assert torch.is_inference_mode_enabled()
    assert torch.equal(torch.rand(3), expected)


def test_only_half_precision_on_cuda_and_even_heads_fit() -> None:
    assert not varlen.fits(torch.zeros(5, 192, dtype=torch.bfloat16), 64)
    for dtype, head_size, fit in (
        (torch.bfloat16, 64, True),
        (torch.float16, 128, True),
        (torch.float32, 64, False),
        (torch.bfloat16, 44, False),
        (torch.bfloat16, 256, False),
    ):
        row = torch.zeros(5, 3 * head_size, dtype=dtype, device="meta")
        # A tensor on CUDA cannot be had everywhere; its type and shape can.
        claimed = type("Row", (), {"dtype": row.dtype, "is_cuda": True})()
        assert varlen.fits(claimed, head_size) == fit


def test_the_rival_of_the_trial_is_attention_sequence_by_sequence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(varlen, "TRIAL_LENGTHS", (7, 3))
    monkeypatch.setattr(varlen, "TRIAL_ROWS", 2)
    qkv = torch.randn(20, 3, 5, 11)
    parts = [part.permute(1, 2, 0, 3) for part in qkv.split([7, 7, 3, 3])]
    expected = [F.scaled_dot_product_attention(*part).transpose(0, 1) for part in parts]
    torch.testing.assert_close(varlen.in_blocks(qkv), torch.cat(expected))

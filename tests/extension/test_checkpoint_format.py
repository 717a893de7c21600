"""A format of checkpoints is one function and one entry of a table."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import save_tiny, tiny_tokenizer

from bertsmith import load, load_model
from bertsmith.model.weight_formats import READERS
from bertsmith.model.weights import read_weights


def read_npz(file: Path) -> dict[str, torch.Tensor]:
    with np.load(file) as arrays:
        return {name: torch.from_numpy(array) for name, array in arrays.items()}


def test_a_model_is_loaded_from_another_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_tiny(tmp_path, "masked_lm")
    ids = torch.arange(5, tiny_tokenizer().vocab_size)[None]
    expected = load_model(tmp_path)(ids).logits
    tensors = {name: tensor.numpy() for name, tensor in read_weights(tmp_path).items()}
    np.savez(tmp_path / "weights.npz", **tensors)
    (tmp_path / "model.safetensors").unlink()
    monkeypatch.setitem(READERS, "weights.npz", read_npz)
    assert load_model(tmp_path)(ids).logits.equal(expected)
    assert load(tmp_path, device="cpu")("a [MASK] film")

"""Attention takes the path that was measured as faster."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch

from bertsmith.model import attention_paths, varlen
from bertsmith.model.attention_paths import attention_path, describe_attention, measured_paths
from bertsmith.model.varlen import VarlenTrial, varlen_pays, varlen_trial
from bertsmith.system import measurements

CUDA = torch.device("cuda")
TRIALS = {
    "fast": VarlenTrial(0.001, 0.002, 3e-3, has_dropout=True),
    "no dropout": VarlenTrial(0.001, 0.002, 3e-3, has_dropout=False),
    "slow": VarlenTrial(0.001, 0.00105, 3e-3, has_dropout=True),
    "wrong": VarlenTrial(0.001, 0.002, 1.0, has_dropout=True),
    "absent": VarlenTrial(problem="ImportError: no module"),
}


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_machine_is_measured_where_gradients_are_off(
    mode: Callable[[], AbstractContextManager[None]],
) -> None:
    with mode():
        found = attention_paths.measure_paths()
    assert len(found) == 12 and set(found.values()) <= {"explicit", "fused"}


def test_the_path_is_that_of_the_nearest_length_for_any_number_of_threads(
    remember: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    remember("fused")
    monkeypatch.setattr(attention_paths, "measure_paths", None)
    torch.set_num_threads((threads := torch.get_num_threads()) + 1)
    try:
        paths = measured_paths()
        paths["bf16 learning 128"] = "explicit"
        for length in (65, 128, 255):
            assert attention_path(torch.bfloat16, is_learning=True, length=length) == "explicit"
        for length in (1, 63, 257, 9999):
            assert attention_path(torch.bfloat16, is_learning=True, length=length) == "fused"
        assert attention_path(torch.float32, is_learning=True, length=128) == "fused"
        assert attention_path(torch.bfloat16, is_learning=False, length=128) == "fused"
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("name", "pays", "pays_with_dropout", "told"),
    [
        (
            "fast",
            True,
            True,
            r"of the whole row \(.* row 1.00 ms, by blocks 2.00, .*3.0e-03\)",
        ),
        ("no dropout", True, False, r"of the whole row \(.*; by blocks where it has dropout\)"),
        ("slow", False, False, r"by blocks \(measured here: whole row 1.00 ms, by blocks 1.05"),
        ("wrong", False, False, r"by blocks \(.*, relative error 1.0e\+00\)"),
        ("absent", False, False, r"by blocks \(not of the whole row: ImportError: no module\)"),
    ],
)
def test_attention_of_the_whole_row_must_be_right_and_faster(
    name: str, pays: bool, pays_with_dropout: bool, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (varlen, attention_paths):
        monkeypatch.setattr(module, "varlen_trial", lambda device: TRIALS[name])
    assert varlen_pays(CUDA, with_dropout=False) == pays
    assert varlen_pays(CUDA, with_dropout=True) == pays_with_dropout
    assert re.search(told, describe_attention(CUDA, "bf16"))
    assert describe_attention(CUDA, "fp32") == "attention by blocks"


def test_trials_are_remembered_unless_they_failed(
    remember: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outcome(device: torch.device) -> VarlenTrial:
        if trial := outcomes.pop():
            return trial
        raise ImportError("no module")

    outcomes = [TRIALS["fast"], None]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a card")
    monkeypatch.setattr(varlen, "try_varlen", outcome)
    try:
        for name in ("absent", "fast", "fast"):
            varlen_trial.cache_clear()
            assert varlen_trial(torch.device("cuda:0")) == TRIALS[name]
    finally:
        varlen_trial.cache_clear()
    assert "a card" in measurements._cache_path().read_text()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_cuda_attention_goes_by_blocks() -> None:
    trial = varlen_trial(CUDA)
    assert trial.problem == "there is no CUDA device" and not trial.pays

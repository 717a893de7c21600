"""Attention takes the path that was measured as faster."""

import re
from dataclasses import replace

import pytest
import torch
from torch_threads import another_number

from bertsmith.model import attention_paths, varlen
from bertsmith.model.attention_paths import attention_path, describe_attention, measured_paths
from bertsmith.model.varlen import VarlenTrial, varlen_pays, varlen_trial
from bertsmith.system import measurements

CUDA = torch.device("cuda")


def test_the_path_is_that_of_the_nearest_length_for_any_number_of_threads(remember, monkeypatch):
    with torch.inference_mode():
        found = attention_paths.measure_paths()
    assert len(found) == 12 and set(found.values()) <= {"explicit", "fused"}
    remember("fused")
    monkeypatch.setattr(attention_paths, "measure_paths", None)
    with another_number():
        measured_paths()["bf16 learning 128"] = "explicit"
        for dtype, is_learning, lengths, path in (
            (torch.bfloat16, True, (65, 128, 255), "explicit"),
            (torch.bfloat16, True, (1, 63, 257, 9999), "fused"),
            (torch.float32, True, (128,), "fused"),
            (torch.bfloat16, False, (128,), "fused"),
        ):
            for length in lengths:
                assert attention_path(dtype, is_learning=is_learning, length=length) == path


FAST = VarlenTrial(0.001, 0.002, 3e-3, has_dropout=True)
ABSENT = VarlenTrial(problem="ImportError: no module")


@pytest.mark.parametrize(
    ("trial", "pays", "pays_with_dropout", "told"),
    [
        (FAST, True, True, r"of the whole row \(.* row 1.00 ms, by blocks 2.00, .*3.0e-03\)"),
        (replace(FAST, has_dropout=False), True, False,
         r"of the whole row \(.*; by blocks where it has dropout\)"),
        (VarlenTrial(0.001, 0.00105, 3e-3, has_dropout=True), False, False,
         r"by blocks \(measured here: whole row 1.00 ms, by blocks 1.05"),
        (VarlenTrial(0.001, 0.002, 1.0, has_dropout=True), False, False,
         r"by blocks \(.*, relative error 1.0e\+00\)"),
        (ABSENT, False, False, r"by blocks \(not of the whole row: ImportError: no module\)"),
    ],
)  # fmt: skip
def test_attention_of_the_whole_row_must_be_right_and_faster(
    trial, pays, pays_with_dropout, told, monkeypatch
):
    for module in (varlen, attention_paths):
        monkeypatch.setattr(module, "varlen_trial", lambda device: trial)
    assert varlen_pays(CUDA, with_dropout=False) == pays
    assert varlen_pays(CUDA, with_dropout=True) == pays_with_dropout
    assert re.search(told, describe_attention(CUDA, "bf16"))
    assert describe_attention(CUDA, "fp32") == "attention by blocks"


def test_trials_are_remembered_unless_they_failed(remember, monkeypatch):
    def outcome(device):
        if trial := outcomes.pop():
            return trial
        raise ImportError("no module")

    outcomes = [FAST, None]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a card")
    monkeypatch.setattr(varlen, "try_varlen", outcome)
    try:
        for expected in (ABSENT, FAST, FAST):
            varlen_trial.cache_clear()
            assert varlen_trial(torch.device("cuda:0")) == expected
    finally:
        varlen_trial.cache_clear()
    assert "a card" in measurements._cache_path().read_text()

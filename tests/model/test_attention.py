"""Attention in blocks that pad little, and by the path that was measured as faster."""

from dataclasses import replace

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_threads import another_number

from bertsmith.model import attention_paths, varlen
from bertsmith.model.attention_paths import attention_path, describe_attention, measured_paths
from bertsmith.model.block_cuts import (
    FREE_PADDING,
    MAX_PADDING,
    MAX_SCORES,
    cut_blocks,
    cut_by_length,
    padded_length,
)
from bertsmith.model.varlen import VarlenTrial, varlen_pays
from bertsmith.system.hardware import ComputeChoices, computing_as

falling = st.lists(st.integers(1, 600), min_size=1, max_size=40).map(
    lambda lengths: tuple(sorted(lengths, reverse=True))
)


@settings(max_examples=50)
@given(falling)
def test_blocks_hold_every_sequence_once_and_little_padding(lengths):
    blocks = cut_blocks(lengths, MAX_SCORES)
    assert [i for first, end in blocks for i in range(first, end)] == list(range(len(lengths)))
    for first, end in blocks:
        cells = (end - first) * lengths[first]
        padding = cells - sum(lengths[first:end])
        assert padding <= max(MAX_PADDING * cells, FREE_PADDING)
        assert cells * lengths[first] <= MAX_SCORES or end - first == 1


@settings(max_examples=50)
@given(falling)
def test_blocks_by_length_hold_every_sequence_once_and_none_that_is_padded_further(lengths):
    blocks = cut_by_length(lengths, MAX_SCORES)
    assert [i for first, end in blocks for i in range(first, end)] == list(range(len(lengths)))
    for first, end in blocks:
        assert len({padded_length(length) for length in lengths[first:end]}) == 1
        assert (end - first) * lengths[first] ** 2 <= MAX_SCORES or end - first == 1


def test_the_path_is_that_of_the_nearest_length_for_any_number_of_threads(remember, monkeypatch):
    remember("fused")
    monkeypatch.setattr(attention_paths, "measure_paths", None)
    with another_number():
        measured_paths()["bf16 learning 128"] = "explicit"
        for length, path in ((63, "fused"), (65, "explicit"), (255, "explicit"), (257, "fused")):
            assert attention_path(torch.bfloat16, is_learning=True, length=length) == path
        assert attention_path(torch.bfloat16, is_learning=False, length=128) == "fused"
        cpu = torch.device("cpu")
        assert describe_attention(cpu, "bf16") == "attention by plain matrix products"
        assert describe_attention(cpu, "fp32") == "attention by torch's fused kernel"


def test_a_run_that_began_with_other_lengths_uses_the_nearest_of_its_own():
    """A resumed run has the choices of the version that began it, which may time other lengths."""
    paths = {
        f"{precision} {use} {length}": "fused" if length == 1024 else "explicit"
        for precision in ("fp32", "bf16")
        for use in ("reading", "learning")
        for length in (64, 1024)
    }
    with computing_as(ComputeChoices(1, "fp32", "highest", paths)):
        for length, path in ((1, "explicit"), (255, "explicit"), (257, "fused"), (5000, "fused")):
            assert attention_path(torch.float32, is_learning=True, length=length) == path
            assert attention_path(torch.bfloat16, is_learning=False, length=length) == path


def test_stored_paths_of_other_lengths_are_measured_again(remember, monkeypatch):
    remember("fused")
    monkeypatch.setattr(attention_paths, "ATTENTION_LENGTHS", (64, 256))
    assert measured_paths().keys() == {
        f"{precision} {use} {length}"
        for precision in ("fp32", "bf16")
        for use in ("reading", "learning")
        for length in (64, 256)
    }


def test_attention_of_the_whole_row_must_be_right_and_faster(monkeypatch):
    cuda, right = torch.device("cuda"), VarlenTrial(0.001, 0.002, 3e-3, has_dropout=True)
    for trial, pays, told in (
        (right, True, "of the whole row (measured here: whole row 1.00 ms, by blocks 2.00"),
        (replace(right, blocks_seconds=0.00105), False, "by blocks (measured here"),
        (replace(right, error=1.0), False, "by blocks (measured here"),
        (VarlenTrial(problem="no module"), False, "by blocks (not of the whole row: no module)"),
    ):
        for module in (varlen, attention_paths):
            monkeypatch.setattr(module, "varlen_trial", lambda device, trial=trial: trial)
        assert varlen_pays(cuda, with_dropout=True) == pays
        assert told in describe_attention(cuda, "bf16")
    without_dropout = replace(right, has_dropout=False)
    monkeypatch.setattr(varlen, "varlen_trial", lambda device: without_dropout)
    assert varlen_pays(cuda, with_dropout=False) and not varlen_pays(cuda, with_dropout=True)

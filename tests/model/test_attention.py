"""Attention in blocks and at once, and by the path that was measured as faster."""

import math
import re
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_threads import another_number

from bertsmith.model import attention_paths, varlen
from bertsmith.model.attention import SelfAttention, softmax
from bertsmith.model.attention_paths import attention_path, describe_attention, measured_paths
from bertsmith.model.blocks import FREE_PADDING, MAX_PADDING, MAX_SCORES, BlockLayout, cut_blocks
from bertsmith.model.shape_buckets import SMALLEST, STEPS, rounded_up
from bertsmith.model.varlen import VarlenTrial, varlen_pays, varlen_trial
from bertsmith.system import measurements

CPU = torch.device("cpu")
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


@given(st.integers(1, 10**6))
def test_a_rounded_count_is_little_more_and_few_occur(count):
    """Each shape costs oneDNN milliseconds the first time; see model/shape_buckets.py."""
    rounded = rounded_up(count)
    assert count <= rounded < count + max(SMALLEST, count / (STEPS - 1))
    assert rounded_up(rounded) == rounded
    assert len({rounded_up(count) for count in range(2049, 4097, 16)}) == STEPS


def attention_by_the_formula(module, hidden):
    """One sequence, one head at a time: softmax(QK^T / sqrt(d)) V."""
    query, key, value = module.qkv(hidden).chunk(3, -1)
    size = hidden.shape[-1] // module.num_heads
    heads = [
        (q @ k.T / math.sqrt(size)).softmax(-1) @ v
        for q, k, v in zip(*(x.split(size, -1) for x in (query, key, value)), strict=True)
    ]
    return module.output(torch.cat(heads, -1))


@pytest.mark.parametrize("length", [31, 256])
def test_softmax_in_bf16_is_that_of_fp32_rounded(length):
    torch.manual_seed(length)
    scores = (3 * torch.randn(7, length)).bfloat16().requires_grad_()
    exact = scores.detach().double().requires_grad_()
    found, expected = softmax(scores), exact.softmax(-1)
    torch.testing.assert_close(found.double(), expected, rtol=2**-8, atol=1e-7)
    wanted = torch.randn(7, length).bfloat16()
    found.backward(wanted)
    expected.backward(wanted.double())
    torch.testing.assert_close(scores.grad.double(), exact.grad, rtol=2**-6, atol=2**-8)


def by_sequence(query, key, value, query_starts, key_starts, longest_query, longest_key):
    """What torch's kernel for CUDA computes, on any device."""
    query_bounds, key_bounds = list(pairwise(query_starts)), list(pairwise(key_starts))
    assert max(end - start for start, end in query_bounds) == longest_query
    assert max(end - start for start, end in key_bounds) == longest_key
    return torch.cat(
        [
            torch.nn.functional.scaled_dot_product_attention(
                *(x[None].transpose(1, 2) for x in (query[a:b], key[c:d], value[c:d]))
            )[0].transpose(0, 1)
            for (a, b), (c, d) in zip(query_bounds, key_bounds, strict=True)
        ]
    )


def test_the_whole_row_at_once_is_given_to_the_kernel_as_it_wants_it(monkeypatch):
    """The kernel itself runs on CUDA alone; see test_cuda.py."""
    lengths = (23, 19, 7, 7, 3, 1)
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", by_sequence)
    torch.manual_seed(0)
    module = SelfAttention(33, 3, 0.0)
    hidden = torch.randn(sum(lengths), 33)
    layout = BlockLayout(lengths, CPU).view()
    qkv = module.qkv(hidden)
    found = module.output(module.attend_row(qkv, layout, first_only=False))
    expected = torch.cat([attention_by_the_formula(module, x) for x in hidden.split(lengths)])
    torch.testing.assert_close(found, expected)
    alone = module.output(module.attend_row(qkv, layout, first_only=True))
    torch.testing.assert_close(alone, expected[layout.bounds.starts[:-1]])


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

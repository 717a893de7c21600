"""The held-out choice: by text alone, never empty where it need not be, equal texts together."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_peak import peak

from bertsmith.data.splits import HeldOutChoice, text_hash


def place_all(texts, share):
    choice = HeldOutChoice(share)
    placed = [pair for text in texts for pair in choice.assign(text, text_hash(text))]
    return [*placed, *choice.finish()]


@settings(max_examples=50)
@given(
    st.lists(st.sampled_from([f"document {n}" for n in range(12)])),
    st.sampled_from([0.0, 0.01, 0.3, 0.99]),
)
def test_each_document_gets_one_split_and_equal_ones_the_same(texts, share):
    placed = place_all(texts, share)
    assert sorted(text for text, _ in placed) == sorted(texts)
    splits = defaultdict(set)
    for text, split in placed:
        splits[text].add(split)
    assert all(len(found) == 1 for found in splits.values())
    sides = {split for _, split in placed}
    if len(set(texts)) >= 2 and share > 0:
        assert sides == {"train", "held_out"}
    elif texts:
        assert sides == {"train"}


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.99])
def test_many_hashes_are_decided_as_one_after_another(share):
    """With the first document again, and hashes on both sides of the limit."""
    choice = HeldOutChoice(share)
    limit = int(share * 2.0**64)
    first = [limit // 2, limit // 3]
    for hashed in first:
        choice.assign(hashed, hashed)
    assert choice.needs_no_waiting
    others = [*first, 0, 1, limit - 1, limit, limit + 1, (1 << 64) - 1, 7 << 50]
    hashes = [hashed for hashed in others if hashed >= 0]
    expected = [split == "held_out" for each in hashes for _, split in choice.assign(each, each)]
    assert choice.are_held_out(np.array(hashes, np.uint64)).tolist() == expected


def test_copies_of_the_document_that_waits_take_no_memory():
    def place(count):
        choice = HeldOutChoice(1e-9)
        choice.assign("first", text_hash("first"))
        for _ in range(count):
            text = "copy " * 100  # a text of its own each time, as a reader gives it
            assert choice.assign(text[:-1] + "!", 7 << 40) == []
        assert len(choice.finish()) == count

    small, large = (peak(lambda count=count: place(count)) for count in (100, 4000))
    assert large - small < 4000 * 20

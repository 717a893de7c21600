"""The held-out choice: by text alone, never empty where it need not be, equal texts together."""

from collections import defaultdict

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

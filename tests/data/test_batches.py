"""Sequences of a step are dealt out: each part has as much to do as the others."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bertsmith.data.batches import deal_by_length


@settings(max_examples=40)
@given(st.lists(st.integers(1, 512), max_size=40), st.integers(1, 9))
def test_parts_have_as_many_tokens_but_for_one_sequence(lengths, num_parts):
    parts = deal_by_length(lengths, num_parts)
    assert len(parts) == num_parts
    assert sorted(place for part in parts for place in part) == list(range(len(lengths)))
    tokens = [sum(lengths[place] for place in part) for part in parts]
    assert max(tokens) - min(tokens) <= max(lengths, default=0)

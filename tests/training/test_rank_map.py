"""A function on many items: each rank computes its share, and rank 0 gets all in order."""

import json

import pytest
from launches import TESTS, end_ranks, start_ranks

SCRIPT = TESTS / "support" / "rank_map_script.py"


@pytest.mark.same_on_all_computers
def test_items_are_dealt_to_ranks_and_errors_name_theirs():
    """A map that is abandoned, as where a file cannot be written, leaves the ranks ready."""
    answers = end_ranks(start_ranks([SCRIPT], 2))
    assert [code for code, *_ in answers] == [0, 0], answers
    found = json.loads(answers[0][1])
    assert found["results"] == [[0, "0"], [1, "1"], [2, "0"], [3, "1"], [4, "0"]]
    assert found["error"].startswith("rank 1 on ")
    assert found["error"].endswith(": item 1 is bad")

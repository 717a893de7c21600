"""Several ranks: the losses of one process, and with exact sums its bytes."""

import json

import pytest
from launches import TESTS, end_ranks, start_ranks

SCRIPT = TESTS / "support" / "rank_script.py"


@pytest.fixture(scope="module")
def alone(corpus_dir):
    """The results of one process, which chooses how to compute as those of the ranks do."""
    ((code, output, errors),) = end_ranks(start_ranks([SCRIPT, corpus_dir], 1))
    assert code == 0, errors
    return json.loads(output)["results"]


def flat(figures):
    """All numbers of nested lists and dicts, in order."""
    if isinstance(figures, dict):
        return [number for value in figures.values() for number in flat(value)]
    if isinstance(figures, list):
        return [number for value in figures for number in flat(value)]
    return [figures]


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_the_number_of_ranks_is_no_part_of_the_result(corpus_dir, alone, num_ranks):
    """With four ranks of two shares, some have no micro-batch of a step."""
    answers = end_ranks(start_ranks([SCRIPT, corpus_dir], num_ranks))
    assert [code for code, *_ in answers] == [0] * num_ranks, answers
    printed = json.loads(answers[0][1])
    results = printed["results"]
    for name, expected in alone.items():
        # With exact sums rank 0 alone evaluates, as a division would change the last digits.
        assert printed["num_parts"][name] == (1 if name.startswith("exact") else num_ranks)
        if name.startswith("exact"):
            assert results[name] == expected, name
            continue
        tolerance = 2e-2 if name == "bf16" else 1e-6
        # Figures are sums over some ten predictions, and the loss on soft targets is a small
        # difference of numbers that are a hundred times as large.
        absolute = 1e-5 if name == "distillation" else tolerance
        found = flat(results[name]["figures"])
        assert found == pytest.approx(flat(expected["figures"]), rel=tolerance, abs=absolute)

"""Cells, differences and verdicts, where runs are missing too."""

import pytest

from bertsmith.comparison.metrics import Metric, build_title, to_json
from bertsmith.comparison.report import UNKNOWN, WITHIN, classify_difference


def test_losses_are_as_they_are_and_shares_times_100():
    loss = Metric("one_segment_loss", "loss", {"a": [3.0, 3.2], "b": [2.0, None], "c": [None] * 2})
    assert [loss.cell(name) for name in "abc"] == ["3.100 ± 0.141", "2.000", "–"]
    share = Metric("SST-2 gloss", "accuracy", {"a": [0.75, 0.77], "b": [0.5, 0.5]})
    assert share.cell("a") == "76.0 ± 1.4"


def test_differences_are_over_seeds_that_all_have():
    values = {"a": [1.0, 1.1, 1.2], "b": [2.0, 2.1, None], "c": [1.0, 1.11, 9.0]}
    found = Metric("one_segment_loss", "x", values).differences()
    assert found["b"].mean == pytest.approx(1.0)
    assert found["c"].mean == pytest.approx(0.005)  # the third seed is no seed of b
    never = Metric("one_segment_loss", "x", {"a": [1.0, None], "b": [None, 1.1]})
    assert never.differences() == {}
    assert to_json(never)["recipes"]["b"] == {"mean": 1.1, "sd": None, "values": [None, 1.1]}


def test_a_verdict_knows_what_is_better():
    values = {"a": [1.0, 1.01, 1.0], "b": [2.0, 2.01, 2.01], "c": [1.0, 1.01, 1.01]}
    loss, share = Metric("one_segment_loss", "x", values), Metric("x", "x", values)
    for metric, found in ((loss, "worse"), (share, "better")):
        verdicts = [classify_difference(metric, metric.differences()[name]) for name in "bc"]
        assert verdicts == [found, WITHIN]
    words = loss.format_difference(loss.differences()["b"])
    assert words.startswith("+1.003 (+0.9") and words.endswith("p < 0.001)")
    single = Metric("x", "x", {"a": [0.5], "b": [0.9]})
    assert classify_difference(single, single.differences()["b"]) == UNKNOWN
    text = single.format_difference(single.differences()["b"])
    assert text.startswith("+40.0 (no spread over seeds")


def test_a_title_has_the_whole_name_of_an_objective():
    assert build_title("my_loss_accuracy") == "my_loss: accuracy"
    assert build_title("rtd_auc") == "replaced tokens: area under the ROC curve"

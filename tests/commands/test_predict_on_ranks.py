"""Predictions, scores and vectors of a file on several ranks are those of one."""

import json

import numpy as np
import pytest
from launches import at_start_of, end_ranks, limit_on_files, start_ranks
from tiny_models import GOOD, OTHER, save_tiny

NUM_TEXTS = 2500
"""Three portions, so that the last one leaves a rank without work."""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model"), "classify", labels=("neg", "pos"))


def write_table(path, labels):
    """Write short texts of various lengths with these labels."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        file.write("text,label\n")
        for label in labels:
            words = rng.choice(GOOD + OTHER[:7], rng.integers(1, 9))
            file.write(f"{' '.join(words)},{label}\n")
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    labels = ["neg", "pos"] * (NUM_TEXTS // 2)
    return write_table(tmp_path_factory.mktemp("data") / "texts.csv", labels)


OPTIONS = ("--device", "cpu", "--precision", "fp32")


# Ranks are programs of their own, which pack weights where oneDNN can, whatever `--computing` says.
# So their bytes are not compared with those of a test that computes without oneDNN.


def run_on_ranks(words):
    """Run a command on two ranks; return what rank 0 printed."""
    answers = end_ranks(start_ranks(["-m", "bertsmith", *words, *OPTIONS], 2))
    assert [code for code, *_ in answers] == [0, 0], answers
    assert answers[1][1:] == ("", "")
    return answers[0][1]


@pytest.mark.same_on_all_computers
def test_predictions(model, table, tmp_path, bertsmith):
    words = ["predict", model, "--file", table, "--out"]
    alone, together = tmp_path / "alone.jsonl", tmp_path / "together.jsonl"
    bertsmith(*words, alone, *OPTIONS)
    assert alone.read_bytes().count(b"\n") == NUM_TEXTS
    run_on_ranks([*words, together])
    assert together.read_bytes() == alone.read_bytes()


@pytest.mark.same_on_all_computers
def test_scores(model, table, bertsmith):
    words = ["evaluate", model, "--data", table, "--json"]
    alone = json.loads(bertsmith(*words, *OPTIONS))
    assert f"{NUM_TEXTS}" in json.dumps(alone)
    assert json.loads(run_on_ranks(words)) == alone


@pytest.mark.same_on_all_computers
def test_vectors(model, table, tmp_path, bertsmith):
    words = ["embed", model, table, "--out"]
    alone, together = tmp_path / "alone.npy", tmp_path / "together.npy"
    bertsmith(*words, alone, *OPTIONS)
    run_on_ranks([*words, together])
    assert together.read_bytes() == alone.read_bytes()


@pytest.mark.same_on_all_computers
def test_a_result_that_cannot_be_written_ends_all_ranks(model, table, tmp_path):
    """The limit on the size of files stands for a full disk, on rank 0 alone."""
    front = at_start_of(0, limit_on_files(20_000), tmp_path / "full")
    words = ["-m", "bertsmith", "predict", model, "--file", table, "--out", tmp_path / "p.jsonl"]
    answers = end_ranks(start_ranks([*words, "--device", "cpu"], 2, front=front))
    assert [code for code, *_ in answers] == [2, 2], answers
    assert "p.jsonl: cannot be written" in answers[0][2] and answers[1][1:] == ("", "")
    assert "Traceback" not in answers[0][2] and not (tmp_path / "p.jsonl").exists()


@pytest.mark.same_on_all_computers
def test_a_row_that_cannot_be_scored_ends_all_ranks(model, tmp_path):
    labels = ["neg", "pos"] * (NUM_TEXTS // 2) + ["good"]
    data = write_table(tmp_path / "texts.csv", labels)
    words = ["-m", "bertsmith", "evaluate", model, "--data", data, "--device", "cpu"]
    answers = end_ranks(start_ranks(words, 2))
    assert [code for code, *_ in answers] == [2, 2], answers
    assert "texts.csv:2502" in answers[0][2] and "'good'" in answers[0][2]
    assert "Traceback" not in answers[0][2] and answers[1][1:] == ("", "")

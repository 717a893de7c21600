"""A fine-tuning on two ranks: with exact sums it has the bytes and scores of one process."""

import json

import pytest
import torch
from folders import contents
from launches import at_start_of, end_ranks, limit_on_files, start_ranks
from tiny_models import save_tiny

from bertsmith.cli import main
from bertsmith.model.loading import load_model
from bertsmith.system.cores import available_cores

TEXTS = ["a good film", "the dull story was very bad", "was fine", "a dull film in the story"] * 10


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with texts, a model and a classifier.

    The texts differ in length, so that parts of a step have different numbers of micro-batches.
    """
    folder = tmp_path_factory.mktemp("data")
    labels = ["pos", "neg", "pos", "neg"] * 10
    rows = [f"{text},{label}\n" for text, label in zip(TEXTS, labels, strict=True)]
    (folder / "texts.csv").write_text("text,label\n" + "".join(rows))
    held_out = "text,label\na fine film,pos\nthe very dull film,neg\nvery bad,neg\n"
    (folder / "held_out.csv").write_text(held_out)
    save_tiny(folder / "model")
    save_tiny(folder / "teacher", "classify", labels=("neg", "pos"))
    return folder


def command(data, out, *more):
    return [
        *("finetune", "classify", "--out", out, "--train", data / "texts.csv"),
        *("--eval", data / "held_out.csv", "--epochs", 2, "--batch-size", 13),
        *("--precision", "fp32", "--device", "cpu", *more),
    ]


def run_alone(words):
    main([*map(str, words)])  # in this process


def result_of(out):
    """Read the result of a run, without the facts that differ between equal runs."""
    result = json.loads((out / "run.json").read_text())["result"]
    timed = ("out", "training", "comparison")
    return {name: value for name, value in result.items() if name not in timed}


OTHER_MACHINE = """
import torch
map_file = torch.from_file

def map_own_file(path, *arguments, **options):
    if path.startswith('/proc') and f'/{os.getpid()}/' not in path:
        raise FileNotFoundError(f'{path}: another machine has no such process')
    return map_file(path, *arguments, **options)

torch.from_file = map_own_file
"""


@pytest.mark.same_on_all_computers  # as test_ranks.py trains on each kind
@pytest.mark.parametrize("source", ["model", "teacher"])
def test_exact_sums_give_the_bytes_of_one_process(data, tmp_path, source):
    """The second rank cannot map the memory of the first, in which a teacher is."""
    outs = alone, together = tmp_path / "alone", tmp_path / "together"
    of_source = (f"--{source}", data / source, "--exact", "--threads", 1)
    run_alone(command(data, alone, *of_source))
    words = ["-m", "bertsmith", *command(data, together, *of_source)]
    front = at_start_of(1, OTHER_MACHINE, tmp_path / "other")
    answers = end_ranks(start_ranks(words, 2, front=front))
    assert [code for code, *_ in answers] == [0, 0], answers
    assert answers[1][1:] == ("", "")
    assert result_of(together) == result_of(alone)
    expected, weights = (load_model(out).state_dict() for out in outs)
    assert expected.keys() == weights.keys()
    assert all(torch.equal(weights[name], value) for name, value in expected.items())


@pytest.mark.same_on_all_computers
def test_a_cache_that_another_machine_does_not_see_is_refused(data, tmp_path, monkeypatch):
    """Each rank looks for the teacher's outputs in its own current folder."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "first")
    of_teacher = ("--teacher", data / "teacher", "--cache", "cache", "--threads", 1)
    run_alone(command(data, "seen", *of_teacher))
    words = ["-m", "bertsmith", *command(data, "unseen", *of_teacher)]
    elsewhere = f"import os\nos.chdir({str(tmp_path / 'second')!r})"
    front = at_start_of(1, elsewhere, tmp_path / "elsewhere")
    answers = end_ranks(start_ranks(words, 2, front=front))
    assert [code for code, *_ in answers] == [2, 2], answers
    message = answers[0][2].splitlines()[-1]
    assert "rank 1 on " in message and "cache/manifest.json: is not seen from here" in message
    assert answers[1][1:] == ("", "")
    assert not (tmp_path / "first" / "unseen").exists() and not any((tmp_path / "second").iterdir())


@pytest.mark.same_on_all_computers
def test_a_run_goes_on_when_torchrun_starts_all_ranks_again(data, tmp_path):
    """torchrun repeats the first line, after a rank was killed while the run was scored.

    Words after `--` are no options, so --resume must come before it.
    """
    out = tmp_path / "run"
    words = command(data, out, "--model", data / "model", "--threads", 1)
    run_alone(words)
    expected, journal = result_of(out), (out / "journal.jsonl").read_bytes()
    facts = json.loads((out / "run.json").read_text())
    del facts["result"]
    (out / "run.json").write_text(json.dumps(facts))
    again = start_ranks(["-m", "bertsmith", *words, "--"], 2, TORCHELASTIC_RESTART_COUNT="1")
    answers = end_ranks(again)
    assert [code for code, *_ in answers] == [0, 0], answers
    assert result_of(out) == expected
    assert (out / "journal.jsonl").read_bytes() == journal


@pytest.mark.same_on_all_computers
def test_a_launch_does_not_go_on_with_a_run_that_it_did_not_begin(data, tmp_path):
    """All ranks are started again after a fault at the start, before the earlier run is replaced.

    The earlier run was stopped before it was scored, so --resume would go on with it.
    """
    out = tmp_path / "run"
    words = command(data, out, "--model", data / "model", "--threads", 1)
    run_alone(words)
    facts = json.loads((out / "run.json").read_text())
    del facts["result"]
    (out / "run.json").write_text(json.dumps({**facts, "note": "the earlier run"}))
    before = contents(out)
    launch = {"TORCHELASTIC_RUN_ID": "mine", "TORCHELASTIC_RESTART_COUNT": "1"}
    answers = end_ranks(start_ranks(["-m", "bertsmith", *words], 2, **launch))
    assert [code for code, *_ in answers] == [2, 2], answers
    assert "holds an earlier run" in answers[0][2]
    assert contents(out) == before
    words = ["-m", "bertsmith", *words, "--overwrite"]
    answers = end_ranks(start_ranks(words, 2, **launch))
    assert [code for code, *_ in answers] == [0, 0], answers
    begun = json.loads((out / "run.json").read_text())
    assert begun["launch"] == "mine" and "note" not in begun


@pytest.mark.same_on_all_computers
@pytest.mark.skipif(available_cores() < 2, reason="one process shares no memory")
def test_a_series_that_a_rank_refuses_leaves_an_earlier_run_as_it_was(data, tmp_path):
    """The second rank cannot make the memory that its two processes share."""
    out = tmp_path / "series"
    out.mkdir()
    (out / "run.json").write_text("{}")
    words = command(data, out, "--model", data / "model", "--seeds", 2, "--threads", 2)
    front = at_start_of(1, limit_on_files(20_000), tmp_path / "limited")
    words = ["-m", "bertsmith", *words, "--overwrite"]
    answers = end_ranks(start_ranks(words, 2, front=front, is_fresh=True))
    assert [code for code, *_ in answers] == [2, 2], answers
    assert "rank 1 on " in answers[0][2] and "shared memory: the system refused" in answers[0][2]
    assert answers[1][1:] == ("", "")
    assert contents(out) == {"run.json": b"{}"}

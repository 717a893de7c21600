"""Commands on several ranks, started as a launcher starts them: by variables."""

import json
import os
import shutil
import signal
import time

import pytest
import torch
from launches import at_start_of, end_ranks, limit_on_files, start_ranks
from refusals import refuses
from tiny_runs import SIZE

from bertsmith.cli import main
from bertsmith.commands.on_ranks import check_line
from bertsmith.errors import ConfigError
from bertsmith.model.loading import load_model
from bertsmith.training.journal import read_journal


def command(corpus_dir, out, *more):
    words = ["-m", "bertsmith", "pretrain", *SIZE, "--corpus", corpus_dir, "--out", out]
    return [*words, "--threads", 1, "--precision", "fp32", *more]


def wait_for_steps(out, count, processes):
    """Wait until the journal of a run has some steps."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and all(each.poll() is None for each in processes):
        journal = out / "journal.jsonl"
        if journal.exists() and len(journal.read_text().splitlines()) >= count:
            return
        time.sleep(0.05)
    raise AssertionError(end_ranks(processes))


EXACT = ("--steps", 20, "--exact", "--batch-size", 12, "--micro-batch-size", 1)


@pytest.fixture(scope="module")
def whole(corpus_dir, tmp_path_factory):
    """The weights that one process learns."""
    out = tmp_path_factory.mktemp("alone") / "run"
    learn_alone(corpus_dir, out)
    return load_model(out).state_dict()


def learn_alone(corpus_dir, out, *more):
    """Train in this process, with the same words as the ranks."""
    main([str(word) for word in command(corpus_dir, out, *EXACT, *more)[2:]])


@pytest.mark.same_on_all_computers  # as test_ranks.py trains on each kind
def test_two_ranks_learn_the_bytes_of_one(whole, corpus_dir, tmp_path):
    out = tmp_path / "run"
    answers = end_ranks(start_ranks(command(corpus_dir, out, *EXACT), 2))
    assert [code for code, *_ in answers] == [0, 0], answers
    head = "Training on 2 ranks, the first with 1 CPU core, in fp32."
    assert f"{head} A rank that is silent for 60 s ends the run." in answers[0][2]
    assert "trained" in answers[0][1] and answers[1][1:] == ("", "")
    weights = load_model(out).state_dict()
    assert all(torch.equal(weights[name], value) for name, value in whole.items())
    assert json.loads((out / "run.json").read_text())["processes"] == 12


@pytest.mark.same_on_all_computers  # as test_ranks.py trains on each kind
def test_a_stopped_run_of_three_ranks_goes_on_alone(whole, corpus_dir, tmp_path):
    """SIGTERM to all, as a launcher passes it on: rank 0 saves, and all end with its code."""
    out = tmp_path / "run"
    ranks = start_ranks(command(corpus_dir, out, *EXACT), 3)
    wait_for_steps(out, 3, ranks)
    for rank in ranks:
        rank.send_signal(signal.SIGTERM)
    answers = end_ranks(ranks)
    assert [code for code, *_ in answers] == 3 * [143], answers
    assert "Continue with: bertsmith pretrain " in answers[0][2]
    assert " --resume  # with the launcher that started the ranks" in answers[0][2]
    assert answers[1][1:] == ("", "")
    assert not (out / "model.safetensors").exists()
    learn_alone(corpus_dir, out, "--resume")
    weights = load_model(out).state_dict()
    assert all(torch.equal(weights[name], value) for name, value in whole.items())


def at_third_backward(*lines):
    """Write a program that runs these lines before the third backward pass of a rank."""
    body = "\n        ".join(lines)
    return f"""
import signal
import time
import torch

backward = torch.Tensor.backward
calls = []

def interrupted_backward(*arguments, **options):
    calls.append(None)
    if len(calls) == 3:
        {body}
    return backward(*arguments, **options)

torch.Tensor.backward = interrupted_backward
"""


@pytest.mark.same_on_all_computers
def test_a_second_signal_while_rank_0_computes_ends_all_ranks(corpus_dir, tmp_path):
    stop = "signal.raise_signal(signal.SIGTERM)"
    # A signal sooner after the first would be the same request.
    lines = at_third_backward(stop, "time.sleep(2.2)", stop)
    twice = at_start_of(0, lines, tmp_path / "twice")
    words = command(corpus_dir, tmp_path / "run", "--steps", 20)
    answers = end_ranks(start_ranks(words, 2, front=twice), seconds=120)
    assert [code for code, *_ in answers] == [143, 143], answers
    assert "stopped by SIGTERM" in answers[0][2] and answers[1][1:] == ("", "")


@pytest.mark.same_on_all_computers
@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_other_launchers_start_ranks_without_torchrun(corpus_dir, tmp_path, launcher):
    words = command(corpus_dir, tmp_path / "run", "--steps", 2)
    answers = end_ranks(start_ranks(words, 2, launcher=launcher, is_fresh=launcher == "srun"))
    assert [code for code, *_ in answers] == [0, 0], answers
    assert "Training on 2 ranks" in answers[0][2] and answers[1][1:] == ("", "")
    assert "exchange " in answers[0][2] and "slowest rank " in answers[0][2]
    (entry, *_) = [
        entry for entry in read_journal(tmp_path / "run" / "journal.jsonl") if "loss" in entry
    ]
    assert 0 < entry["exchange_fraction"] < 1
    assert entry["slowest_rank"] in (0, 1) and 1 <= entry["slowest_rank_factor"] < 2


@pytest.mark.parametrize("killed", [0, 1])
@pytest.mark.same_on_all_computers
def test_a_rank_that_is_killed_ends_the_others_with_a_message(corpus_dir, tmp_path, killed):
    out = tmp_path / "run"
    ranks = start_ranks(command(corpus_dir, out, "--steps", 100_000), 2)
    wait_for_steps(out, 3, ranks)
    ranks[killed].kill()
    code, _, errors = end_ranks(ranks)[1 - killed]
    assert code == (2 if killed else 1)
    assert "A rank has ended" in errors and "--resume" in errors
    assert "Traceback" not in errors


@pytest.mark.same_on_all_computers
def test_a_rank_that_hangs_is_named(corpus_dir, tmp_path):
    out = tmp_path / "run"
    words = command(corpus_dir, out, "--steps", 100_000)
    ranks = start_ranks(words, 2, BERTSMITH_RANK_SECONDS="4")
    wait_for_steps(out, 3, ranks)
    os.kill(ranks[1].pid, signal.SIGSTOP)
    ranks[0].wait(timeout=600)
    os.kill(ranks[1].pid, signal.SIGCONT)
    (code, _, errors), _ = end_ranks(ranks)
    assert code == 1
    named, stack, waiting = errors.partition("bertsmith: rank 1 on ")[2].partition("was last at:")
    assert "silent for 4 s" in named
    of_rank_1, _, of_rank_0 = waiting.partition("This rank was waiting at:")
    assert stack and "in serve_rank" in of_rank_1 and "trainer.py" not in of_rank_1
    assert "trainer.py" in of_rank_0  # which waits somewhere in a step


@pytest.mark.same_on_all_computers
def test_ranks_that_were_all_suspended_go_on(corpus_dir, tmp_path):
    out = tmp_path / "run"
    words = command(corpus_dir, out, "--steps", 100_000)
    ranks = start_ranks(words, 2, BERTSMITH_RANK_SECONDS="4")
    wait_for_steps(out, 3, ranks)
    for rank in ranks:
        os.kill(rank.pid, signal.SIGSTOP)
    time.sleep(6)  # longer than a rank may be silent
    num_steps = len(read_journal(out / "journal.jsonl"))
    os.kill(ranks[0].pid, signal.SIGCONT)
    time.sleep(1.5)  # rank 0 looks for the other, which is not yet back
    os.kill(ranks[1].pid, signal.SIGCONT)
    wait_for_steps(out, num_steps + 50, ranks)
    ranks[0].send_signal(signal.SIGTERM)
    assert [code for code, *_ in end_ranks(ranks)] == [143, 143]


@pytest.mark.same_on_all_computers
def test_a_rank_0_that_hangs_with_the_store_ends_the_others(corpus_dir, tmp_path):
    """Without torchrun, rank 0 holds the store in which ranks report that they are alive."""
    out = tmp_path / "run"
    words = command(corpus_dir, out, "--steps", 100_000)
    ranks = start_ranks(words, 2, launcher="srun", BERTSMITH_RANK_SECONDS="3")
    wait_for_steps(out, 3, ranks)
    os.kill(ranks[0].pid, signal.SIGSTOP)
    try:
        ranks[1].wait(timeout=120)
    finally:
        os.kill(ranks[0].pid, signal.SIGCONT)
    (code_0, *_), (code, _, errors) = end_ranks(ranks)
    assert code_0 in (1, 2) and code == 1  # rank 0 finds rank 1 lost or silent
    reason, _, waiting = errors.partition("This rank was waiting at:")
    assert "The store of the ranks has not answered for 6 s. Rank 0 or its launcher" in reason
    assert "in serve_rank" in waiting


@pytest.mark.same_on_all_computers
def test_a_rank_that_is_late_is_named_with_its_place_and_awaited(corpus_dir, tmp_path):
    slow = at_start_of(1, at_third_backward("time.sleep(8)"), tmp_path / "slow")
    words = command(corpus_dir, tmp_path / "run", "--steps", 4)
    answers = end_ranks(start_ranks(words, 2, front=slow, BERTSMITH_RANK_SECONDS="5"))
    assert [code for code, *_ in answers] == [0, 0], answers
    # On a busy computer, the rank may be late to start, too.
    named = [
        text for text in answers[0][2].split("bertsmith: rank 1 ") if "interrupted_backward" in text
    ]
    assert len(named) == 1 and "is alive, but has not answered for 5 s" in named[0]
    assert answers[1][1:] == ("", "")


DEAF = """
import time
import torch.distributed as dist

def never_failing(receive):
    def wait_for_ever(*arguments, **options):
        try:
            receive(*arguments, **options)
        except RuntimeError:
            time.sleep(3600)
    return wait_for_ever

dist.broadcast_object_list = never_failing(dist.broadcast_object_list)
dist.gather_object = never_failing(dist.gather_object)
"""


@pytest.mark.same_on_all_computers
def test_a_rank_that_does_not_notice_the_end_of_rank_0_ends_too(corpus_dir, tmp_path):
    words = command(corpus_dir, tmp_path / "run", "--steps", 100_000)
    deaf = at_start_of(1, DEAF, tmp_path / "deaf")
    ranks = start_ranks(words, 2, front=deaf, BERTSMITH_RANK_SECONDS="2")
    wait_for_steps(tmp_path / "run", 3, ranks)
    ranks[0].kill()
    _, (code, _, errors) = end_ranks(ranks)
    assert code == 1
    assert "Rank 0 or its launcher has ended, so the run ends here" in errors
    assert "distributed.py" in errors  # the stack


@pytest.mark.same_on_all_computers
def test_a_rank_ends_even_if_nobody_reads_its_message(corpus_dir, tmp_path):
    words = command(corpus_dir, tmp_path / "run", "--steps", 100_000)
    deaf = at_start_of(1, DEAF, tmp_path / "deaf")
    ranks = start_ranks(words, 2, front=deaf, is_fresh=True, BERTSMITH_RANK_SECONDS="2")
    wait_for_steps(tmp_path / "run", 3, ranks)
    ranks[1].stderr.close()
    ranks[0].kill()
    assert ranks[1].wait(timeout=600) == 1
    ranks[1].stdout.close()
    ranks[0].communicate()


SOON = "BERTSMITH_RANK_SECONDS is 'soon'. Give it a number of seconds from 1 to 86,400"


@pytest.mark.same_on_all_computers
def test_what_keeps_all_ranks_from_starting_is_told_once(corpus_dir, tmp_path):
    words = command(corpus_dir, tmp_path / "run", "--steps", 2)
    answers = end_ranks(start_ranks(words, 2, BERTSMITH_RANK_SECONDS="soon"), seconds=120)
    assert [code for code, *_ in answers] == [2, 2], answers
    assert SOON in answers[0][2] and len(answers[0][2].splitlines()) == 1
    assert answers[1][1:] == ("", "")


@pytest.mark.same_on_all_computers
def test_a_wrong_variable_of_one_rank_ends_all(corpus_dir, tmp_path):
    wrong = "os.environ['BERTSMITH_RANK_SECONDS'] = 'soon'"
    patch = at_start_of(1, wrong, tmp_path / "patch")
    words = command(corpus_dir, tmp_path / "run", "--steps", 2)
    answers = end_ranks(start_ranks(words, 2, front=patch), seconds=120)
    assert [code for code, *_ in answers] == [2, 2], answers
    assert "rank 1 on " in answers[0][2] and SOON in answers[0][2]
    assert answers[1][1:] == ("", "")


@pytest.mark.parametrize("change, part", [
    ({"MASTER_ADDR": ""}, "MASTER_ADDR is not set"),
    ({"RANK": "abc"}, "RANK is 'abc'"),
], ids=["address", "rank"])  # fmt: skip
@pytest.mark.same_on_all_computers
def test_a_rank_that_cannot_find_the_others_says_why(corpus_dir, tmp_path, change, part):
    words = command(corpus_dir, tmp_path / "run", "--steps", 2)
    answers = end_ranks(start_ranks(words, 2, **change), seconds=120)
    assert [code for code, *_ in answers] == [2, 2], answers
    assert all(part in errors and len(errors.splitlines()) == 1 for _, _, errors in answers)


FULL_MEMORY = """
import torch.distributed as dist

new_group = dist.new_group
calls = []

def lack_memory(*arguments, **options):
    calls.append(None)
    if len(calls) == 2:  # the group in which gradients are exchanged
        raise MemoryError
    return new_group(*arguments, **options)

dist.new_group = lack_memory
"""


@pytest.mark.same_on_all_computers
def test_a_rank_without_memory_says_so(corpus_dir, tmp_path):
    full = at_start_of(1, FULL_MEMORY, tmp_path / "full")
    words = command(corpus_dir, tmp_path / "run", "--steps", 2)
    ranks = start_ranks(words, 2, front=full, BERTSMITH_RANK_SECONDS="2")
    (code_0, _, errors_0), (code, _, errors) = end_ranks(ranks, seconds=120)
    assert code == 2 and code_0 in (1, 2) and "rank" in errors_0
    assert errors.startswith("bertsmith: rank 1: pretrain: not enough memory. Use ")


@pytest.mark.same_on_all_computers
def test_more_ranks_than_rows_are_refused(corpus_dir, tmp_path):
    out = tmp_path / "run"
    words = command(corpus_dir, out, "--steps", 2, "--batch-size", 2, "--micro-batch-size", 1)
    answers = end_ranks(start_ranks(words, 3))
    assert [code for code, *_ in answers] == [2, 2, 2], answers
    assert "--batch-size: found 2 with 3 ranks, some of which would have nothing" in answers[0][2]
    assert answers[1][1:] == ("", "") and not out.exists()


@pytest.mark.same_on_all_computers
def test_a_rank_that_starts_late_is_awaited(corpus_dir, tmp_path):
    late = at_start_of(1, "import time\ntime.sleep(4)", tmp_path / "late")
    words = command(corpus_dir, tmp_path / "run", "--steps", 2)
    answers = end_ranks(start_ranks(words, 2, front=late))
    assert [code for code, *_ in answers] == [0, 0], answers


CLOCK_AHEAD = """
import time
seconds, monotonic = time.time, time.monotonic
time.time = lambda: seconds() + 36_000
time.monotonic = lambda: monotonic() + 36_000
"""


@pytest.mark.same_on_all_computers
def test_minutes_are_those_of_rank_0(corpus_dir, tmp_path):
    """The clock of the other rank is ten hours ahead, and it knows no end of its own."""
    ahead = at_start_of(1, CLOCK_AHEAD, tmp_path / "ahead")
    words = command(corpus_dir, tmp_path / "run", "--minutes", 0.05)
    answers = end_ranks(start_ranks(words, 2, front=ahead))
    assert [code for code, *_ in answers] == [0, 0], answers
    summary = json.loads((tmp_path / "run" / "run.json").read_text())["summary"]
    assert summary["steps"] > 0 and summary["elapsed_seconds"] < 60


@pytest.mark.same_on_all_computers
def test_a_full_disk_ends_all_ranks_with_one_message(corpus_dir, tmp_path):
    """A limit on the size of files stands for the disk: the run has begun when it is met."""
    full = at_start_of(0, limit_on_files(100_000), tmp_path / "full")
    out = tmp_path / "run"
    words = command(corpus_dir, out, "--steps", 200, "--checkpoint-every", 3)
    answers = end_ranks(start_ranks(words, 2, front=full))
    assert [code for code, *_ in answers] == [2, 2], answers
    assert str(out) in answers[0][2] and "Traceback" not in answers[0][2]
    assert answers[1][1:] == ("", "")
    assert not list(out.rglob("*.tmp*")) and not (out / "model.safetensors").exists()


@pytest.mark.parametrize("code, part, is_fresh", [
    ("import bertsmith._version\nbertsmith._version.__version__ = '0.0.1'",
     "has another bertsmith than rank 0: '0.0.1'", True),
    ("import sys\nsys.argv[-1] = '3'", "was started with '--steps 3', and rank 0 with '--steps 2'",
     False),
], ids=["version", "settings"])  # fmt: skip
@pytest.mark.same_on_all_computers
def test_a_rank_that_was_started_otherwise_is_refused(corpus_dir, tmp_path, code, part, is_fresh):
    patch = at_start_of(1, code, tmp_path / "patch")
    words = command(corpus_dir, tmp_path / "run", "--steps", 2)
    answers = end_ranks(start_ranks(words, 2, front=patch, is_fresh=is_fresh))
    assert [code for code, *_ in answers] == [2, 2], answers
    assert "rank 1 on " in answers[0][2] and part in answers[0][2]
    assert answers[1][1:] == ("", "") and not (tmp_path / "run").exists()


@pytest.mark.parametrize("line, part", [
    ("--stepz 2", "There is no option --stepz"),
    ("--steps two", "--steps: found 'two'"),
    ("--steps 2 --corpus", "--corpus"),
], ids=["flag", "value", "missing"])  # fmt: skip
@pytest.mark.same_on_all_computers
def test_a_mistake_in_the_line_of_another_rank_ends_all(corpus_dir, tmp_path, line, part):
    patch = at_start_of(2, f"import sys\nsys.argv[-2:] = {line.split()}", tmp_path / "patch")
    words = command(corpus_dir, tmp_path / "run", "--steps", 2)
    answers = end_ranks(start_ranks(words, 3, front=patch), seconds=120)
    assert [code for code, *_ in answers] == [2, 2, 2], answers
    assert "rank 2 on " in answers[0][2] and part in answers[0][2]
    assert len(answers[0][2].splitlines()) == 1
    assert [output for _, *output in answers[1:]] == [["", ""], ["", ""]]
    assert not (tmp_path / "run").exists()


@pytest.mark.same_on_all_computers
def test_a_mistake_in_the_line_of_rank_0_alone_ends_all(corpus_dir, tmp_path):
    patch = at_start_of(0, "import sys\nsys.argv[-2] = '--stepz'", tmp_path / "patch")
    words = command(corpus_dir, tmp_path / "run", "--steps", 2)
    answers = end_ranks(start_ranks(words, 2, front=patch), seconds=120)
    assert [code for code, *_ in answers] == [2, 2], answers
    assert "--stepz" in answers[0][2] and "rank" not in answers[0][2]
    assert len(answers[0][2].splitlines()) == 1 and answers[1][1:] == ("", "")


@pytest.mark.same_on_all_computers
def test_a_mistake_in_all_lines_is_told_once(corpus_dir, tmp_path):
    words = command(corpus_dir, tmp_path / "run", "--stepz", 2)
    answers = end_ranks(start_ranks(words, 2), seconds=120)
    assert [code for code, *_ in answers] == [2, 2], answers
    assert len(answers[0][2].splitlines()) == 1 and answers[1][1:] == ("", "")


@pytest.mark.parametrize("exists", [False, True], ids=["new", "overwritten"])
@pytest.mark.same_on_all_computers
def test_another_corpus_is_refused_and_nothing_is_written(
    corpus_dir, tmp_path, monkeypatch, exists
):
    """Each rank reads the corpus of its own current folder."""
    for name in ("first", "second"):
        shutil.copytree(corpus_dir, tmp_path / name / "corpus")
    manifest = tmp_path / "second" / "corpus" / "manifest.json"
    manifest.write_text(manifest.read_text() + "\n")
    monkeypatch.chdir(tmp_path / "first")
    elsewhere = f"import os\nos.chdir({str(tmp_path / 'second')!r})"
    words = command("corpus", "run", "--steps", 2, *(["--overwrite"] if exists else []))
    if exists:
        out = tmp_path / "first" / "run"
        out.mkdir()
        (out / "run.json").write_text("{}")
    answers = end_ranks(start_ranks(words, 2, front=at_start_of(1, elsewhere, tmp_path / "patch")))
    assert [code for code, *_ in answers] == [2, 2], answers
    assert "rank 1 on " in answers[0][2] and "has another corpus_sha256" in answers[0][2]
    assert answers[1][1:] == ("", "")
    found = [
        path.name
        for path in (tmp_path / "first").rglob("*")
        if path.name != "corpus" and "corpus" not in path.parts
    ]
    assert found == (["run", "run.json"] if exists else [])


@pytest.mark.parametrize("words, parts", [
    ("--steps 5 --out a/run", ["'--steps 5', and rank 0 with '--steps 2'"]),
    ("--steps 2 --out a/other", ["'--out other', and rank 0 with '--out run'"]),
    ("--steps 2", ["nothing there, and rank 0 with '--out'"]),
    ("--steps 2 --out a/run --exact", ["'--exact', and rank 0 with nothing there"]),
], ids=["value", "name", "fewer", "more"])  # fmt: skip
def test_options_that_differ_between_ranks(words, parts):
    with refuses(ConfigError, "Give all ranks the same line", *parts):
        check_line(["--steps", "2", "--out", "/home/a/run"], words.split())


def test_options_with_the_value_behind_an_equals_sign_are_compared_by_name():
    check_line(["--train=/home/a/rows.csv"], ["--train=b/rows.csv"])
    with refuses(ConfigError, "'--eval=rows.csv', and rank 0 with '--train=rows.csv'"):
        check_line(["--train=/home/a/rows.csv"], ["--eval=b/rows.csv"])


@pytest.mark.parametrize("words", [
    "--steps 2 --out run/", "--steps 2 --threads 3 --out a/run", "--threads=3 --steps 2 --out run",
])  # fmt: skip
def test_threads_and_folders_may_differ_between_ranks(words):
    check_line(["--steps", "2", "--out", "/home/a/run"], words.split())

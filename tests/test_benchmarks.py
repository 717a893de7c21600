"""The benchmarks: contenders stop when told, ratios are right, pages and the README agree."""

import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from torch_threads import threads

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # benchmarks/ is not installed

from benchmarks import gpu  # noqa: E402
from benchmarks.speed import readme  # noqa: E402
from benchmarks.speed.contest import Claim, Contender, Contest, run  # noqa: E402
from benchmarks.speed.plan import Plan  # noqa: E402
from benchmarks.speed.protocol import Gate  # noqa: E402
from benchmarks.speed.report import page  # noqa: E402
from benchmarks.speed.roof import training_flops_per_token  # noqa: E402
from benchmarks.tasks.__main__ import page as tasks_page  # noqa: E402
from benchmarks.tasks.cases import CASES, our_settings  # noqa: E402
from benchmarks.tasks.peer import PEERS  # noqa: E402
from bertsmith.tasks.catalog import task_named  # noqa: E402

CONTENDER = """
import time


def steady(gate, pause, error_after=None):
    gate.wait(precision="fp32")
    step = 0
    while step != error_after:
        step += 1
        time.sleep(pause)
        print("a library speaks")
        gate.step(10, cells=16)
    raise ValueError("no more steps")

"""


class LeftError(Exception):
    """What a process does at the end of its pipe."""


def leave(status: int) -> None:
    raise LeftError(status)


def test_a_gate_stops_after_the_steps_that_were_asked_for():
    answers = io.StringIO()
    gate = Gate(io.StringIO("go 2\ngo 1\n"), answers, leave)
    gate.wait(precision="fp32")
    gate.step(7, cells=8)
    gate.step(5, cells=8)
    with pytest.raises(LeftError):
        gate.step(3)
    ready, first, second = map(json.loads, answers.getvalue().splitlines())
    assert ready == {"ready": {"precision": "fp32"}}
    counted = {name: first["burst"][name] for name in ("steps", "amount", "cells")}
    assert counted == {"steps": 2, "amount": 12, "cells": 16}
    assert (second["burst"]["steps"], second["burst"]["cells"]) == (1, None)
    assert second["burst"]["peak_megabytes"] > 1


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """A result of four contenders, of which one fails at its third step and one was never there.

    The speeds are known: ours 300 to 500 tokens/s, the peer's 100.
    """
    folder, target = tmp_path_factory.mktemp("contest"), "contender_for_test:steady"
    (folder / "contender_for_test.py").write_text(CONTENDER, encoding="utf-8")
    contenders = [
        Contender("ours", target, {"pause": 0.0}),
        Contender("peer", target, {"pause": 0.001}),
        Contender("broken", target, {"pause": 0.0, "error_after": 2}),
        Contender("absent", target, problem="it was not exported"),
    ]
    claims = [
        Claim("sleeping", ("ours",), ("peer",), is_shown=True),
        Claim("sleeping", ("ours",), ("broken", "absent")),
    ]
    contest = Contest("Sleeping", "tokens/s", contenders, claims, steps=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        found = run(contest, Plan(data=folder, work=folder, threads=1, is_quick=True))
    for name, speeds in (("ours", (500, 300, 400)), ("peer", (100, 100, 100))):
        for burst, speed in zip(found["contenders"][name]["bursts"], speeds, strict=True):
            burst |= {"amount": float(speed), "seconds": 1.0, "cells": speed * 1.25}
    return {
        "date": "2026-01-31",
        "command": "make bench",
        "machine": "a machine",
        "versions": {"torch": "2"},
        "parity": {"sleeping": {"loss": 1e-7}},
        "contests": {"Sleeping": {**found, "date": "2026-01-31 12:00"}},
    }


def test_a_contender_that_fails_is_reported_and_the_others_go_on(result):
    found = result["contests"]["Sleeping"]["contenders"]
    assert [len(found[name]["bursts"]) for name in ("ours", "peer")] == [3, 3]
    assert found["ours"]["facts"] == {"precision": "fp32"}
    assert "ValueError: no more steps" in found["broken"]["error"]
    assert found["absent"] == {"facts": {}, "bursts": [], "error": "it was not exported"}


def test_the_page_has_ratios_by_round_padding_and_errors(result):
    text = page(result)
    assert "| ours: 400 tokens/s | peer: 100 tokens/s | **4.00×** (3.00 to 5.00) |" in text
    assert "| sleeping | ours: 400 tokens/s |  | not measured |" in text
    assert re.search(r"\| peer \| 100 \| 100 to 100 \| 20% \|", text)
    assert re.search(r"\| broken \| failed \|.*no more steps", text)


def test_the_readme_is_written_from_a_result(result, tmp_path):
    source, path = tmp_path / "speed-2026-01-31.json", tmp_path / "README.md"
    source.write_text(json.dumps(result), encoding="utf-8")
    path.write_text(f"before\n{readme.BEGIN}\nold\n{readme.END}\nafter\n", encoding="utf-8")
    readme.write(path, source)
    assert "| sleeping | ours: 400 tokens/s | peer: 100 tokens/s | **4.0×** |" in readme.shown(path)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text


@pytest.mark.parametrize("page", readme.READMES, ids=lambda page: page.name)
def test_the_speeds_of_the_readmes_are_those_of_a_result(page):
    shown = readme.shown(page)
    named = re.search(r"\(benchmarks/results/(speed-[\w-]+)\.md\)", shown)
    results = ROOT / "benchmarks" / "results"
    expected = readme.table(results / f"{named[1]}.json") if named else readme.NOT_MEASURED
    assert shown == expected


def test_arithmetic_of_a_step_counts_each_matrix_product_three_times():
    config = {"num_hidden_layers": 2, "hidden_size": 3, "vocab_size": 11}
    lengths, predicted = [5, 2], 1
    per_token = 2 * (4 * 3 * 3 + 2 * 3 * 12)  # query, key, value, output; up and down
    attention = sum(2 * 2 * length * length * 3 for length in lengths)  # scores and their use
    head = predicted * 2 * (3 * 3 + 3 * 11)
    forward = 2 * (7 * per_token + attention) + head
    assert training_flops_per_token(config, lengths, predicted) == pytest.approx(3 * forward / 7)


# The benchmark of tasks.


@pytest.mark.parametrize("name", CASES)
def test_bertsmith_takes_the_settings_of_every_case(name, tmp_path):
    case = CASES[name]
    settings = our_settings(case, tmp_path, tmp_path / "model", tmp_path / "out", seed=1)
    assert isinstance(settings, task_named(case.task).settings)
    assert settings.learning_rate == case.learning_rate
    assert case.task in PEERS


def task_run(score: float, seconds: float, machine: str = "this one") -> dict[str, object]:
    """What a run of the benchmark leaves."""
    return {"score": score, "steps": 9, "seconds": seconds, "peak_megabytes": 800.0,
            "load_before": 0.1, "machine": machine}  # fmt: skip


def test_the_page_has_means_and_what_they_cost_for_each_machine():
    found = {
        "rte/bertsmith/0": task_run(0.5, 10.0),
        "rte/bertsmith/1": task_run(0.7, 20.0),
        "rte/transformers/0": task_run(0.6, 40.0),
        "rte/bertsmith/2": task_run(0.7, 20.0, "another"),
        "rte/transformers/2": task_run(0.6, 20.0, "another"),
        "imdb-whole/bertsmith/0": task_run(0.8, 30.0),
    }
    lines = tasks_page(found).splitlines()
    rows = {lines[i - 4]: line for i, line in enumerate(lines) if line.startswith("| RTE")}
    assert rows["this one"] == (
        "| RTE | accuracy | 60.00 ± 14.14 | 60.00 | 10 | 40 | 0.25× | 800 | 800 | 2 and 1 |"
    )
    assert "1.00×" in rows["another"]
    assert any(line.startswith("| IMDB, 1,000 whole reviews") for line in lines)


# The GPU benchmark, on a CPU with a tiny model: the same code from the first row to the page.


def test_the_whole_script(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gpu", "--device", "cpu", "--smoke", "--out", str(tmp_path)])
    with threads(1):
        gpu.main()
    (page,) = tmp_path.glob("gpu-*-smoke.md")
    found = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    assert max(found["parity"]["tiny"][name] for name in ("loss", "gradients")) <= gpu.TOLERANCE
    natural = found["contests"][0]
    assert natural["title"] == "tiny, natural rows, dropout 0.1"
    assert 0.1 < natural["padding"] < 0.9
    failed = {name for name, each in natural["contenders"].items() if each["error"]}
    assert failed == {gpu.FLASH_COMPILED}  # not on a CPU
    losses = [each["facts"]["loss"] for each in natural["contenders"].values() if each["bursts"]]
    assert all(loss == 0 or abs(loss - np.log(997 * 2)) < 0.5 for loss in losses)
    text = page.read_text(encoding="utf-8")
    assert "Parity of tiny in fp32 (allowed 1e-05) holds" in text
    assert re.search(r"\| tiny, natural.*\*\*[\d.]+×\*\*", text)
    assert re.search(r"\| tiny, full rows, dropout 0 \|.*\*\*[\d.]+ %\*\*", text)
    assert "ImportError" in text

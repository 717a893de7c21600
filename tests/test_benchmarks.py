"""The benchmark's bookkeeping: contenders stop when told, ratios are right, the README agrees."""

import io
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # benchmarks/ is not installed

from benchmarks.speed import readme  # noqa: E402
from benchmarks.speed.contest import Claim, Contender, Contest, run  # noqa: E402
from benchmarks.speed.plan import Plan  # noqa: E402
from benchmarks.speed.protocol import Gate  # noqa: E402
from benchmarks.speed.report import page  # noqa: E402
from benchmarks.speed.roof import training_flops_per_token  # noqa: E402

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


def slow_to_begin(gate):
    gate.wait()
    time.sleep(0.7)
    while True:
        time.sleep(0.02)
        gate.step(1)
"""


class LeftError(Exception):
    """What a process does at the end of its pipe."""


def leave(status: int) -> None:
    raise LeftError(status)


def test_a_gate_stops_after_the_steps_that_were_asked_for() -> None:
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


@pytest.fixture
def contest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Three contenders in processes of their own, of which one fails at its third step."""
    (tmp_path / "contender_for_test.py").write_text(CONTENDER, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    target = "contender_for_test:steady"
    held = Contest(
        title="Sleeping",
        unit="tokens/s",
        contenders=[
            Contender("ours", target, {"pause": 0.0}),
            Contender("peer", target, {"pause": 0.001}),
            Contender("broken", target, {"pause": 0.0, "error_after": 2}),
            Contender("absent", target, problem="it was not exported"),
        ],
        claims=[
            Claim("R6 T+", "sleeping", ("ours",), ("peer",), (2, 3)),
            Claim("R7", "sleeping", ("ours",), ("broken", "absent")),
        ],
        steps=2,
    )
    plan = Plan(data=tmp_path, work=tmp_path, threads=1, is_quick=True)
    return {**run(held, plan), "date": "2026-01-31 12:00"}


def test_a_contender_that_fails_is_reported_and_the_others_go_on(contest) -> None:
    found = contest["contenders"]
    assert [len(found[name]["bursts"]) for name in ("ours", "peer")] == [3, 3]
    assert found["ours"]["facts"] == {"precision": "fp32"}
    assert "ValueError: no more steps" in found["broken"]["error"]
    assert found["absent"] == {"facts": {}, "bursts": [], "error": "it was not exported"}


def test_a_first_step_that_takes_long_does_not_make_turns_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "contender_for_test.py").write_text(CONTENDER, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    contender = Contender("ours", "contender_for_test:slow_to_begin", {})
    plan = Plan(data=tmp_path, work=tmp_path, threads=1, is_quick=True)
    found = run(Contest("Beginning", "steps/s", [contender], []), plan)["contenders"]
    assert all(burst["seconds"] > plan.seconds / 2 for burst in found["ours"]["bursts"])


@pytest.fixture
def result(contest, tmp_path: Path) -> Path:
    """A result file whose speeds are known: ours 300 to 500 tokens/s, the peer's 100."""
    for name, speeds in (("ours", (500, 300, 400)), ("peer", (100, 100, 100))):
        for burst, speed in zip(contest["contenders"][name]["bursts"], speeds, strict=True):
            burst |= {"amount": float(speed), "seconds": 1.0, "cells": speed * 1.25}
    run = {
        "date": "2026-01-31",
        "command": "make bench",
        "machine": "a machine",
        "versions": {"torch": "2"},
        "parity": {"sleeping": {"loss": 1e-7}},
        "contests": {contest["title"]: contest},
    }
    path = tmp_path / "speed-2026-01-31.json"
    path.write_text(json.dumps(run), encoding="utf-8")
    return path


def test_the_page_has_ratios_by_round_padding_and_errors(result: Path) -> None:
    text = page(json.loads(result.read_text(encoding="utf-8")))
    assert (
        "| ours: 400 tokens/s | peer: 100 tokens/s | **4.00×** (3.00 to 5.00) | 2× (3×) |" in text
    )
    assert "| R7 | sleeping | ours: 400 tokens/s |  | not measured |  |" in text
    assert re.search(r"\| peer \| 100 \| 100 to 100 \| 20% \|", text)
    assert re.search(r"\| broken \| failed \|.*no more steps", text)


def test_the_page_has_a_table_for_each_text_that_was_learnt_from(result: Path) -> None:
    learnt = {"steps": 900, "tokens": 3_400_000, "masked_lm_accuracy": 31.24,
              "sst2": {"keep": [68.0, 69.0, 70.0], "reset": [70.0, 71.0, 72.0]}}  # fmt: skip
    once = learnt | {"sst2": {"keep": [60.0, 61.0, 62.0]}}
    texts = {
        name: {"minutes": minutes, "threads": 2, "date": "2026-11-20",
               "sides": {"bertsmith": learnt, "peer": side}}
        for name, minutes, side in (("enwiki", 10, once), ("imdb", 5, {"error": "gone"}))
    }  # fmt: skip
    lines = page(json.loads(result.read_text(encoding="utf-8")) | {"quality": texts}).splitlines()
    assert (
        lines.count("| R16 | bertsmith | 900 | 3.4 | 31.2 % | 69.0 ± 1.0 % | 71.0 ± 1.0 % |") == 2
    )
    assert "| R16 | peer | 900 | 3.4 | 31.2 % | 61.0 ± 1.0 % | – |" in lines
    assert '| R16 | peer | "gone" | | | | |' in lines
    first, second = (line for line in lines if "from scratch" in line)
    assert first.startswith("10 minutes") and "`enwiki/small.txt`, 2026-11-20" in first
    assert second.startswith("5 minutes") and "`imdb/train.csv.xz`" in second


def test_the_readme_is_written_from_a_result(result: Path, tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(f"before\n{readme.BEGIN}\nold\n{readme.END}\nafter\n", encoding="utf-8")
    readme.write(path, result)
    assert readme.shown(path) == readme.table(result)
    assert "| sleeping | ours: 400 tokens/s | peer: 100 tokens/s | **4.0×** |" in readme.shown(path)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text


def test_the_readme_agrees_with_the_result_that_it_names() -> None:
    text = readme.shown(readme.README)
    named = re.search(r"\(benchmarks/results/(speed-[\w-]+)\.md\)", text)
    if named is None:
        assert text == readme.NOT_MEASURED
    else:
        path = ROOT / "benchmarks" / "results" / f"{named[1]}.json"
        assert text == readme.table(path)


def test_arithmetic_of_a_step_counts_each_matrix_product_three_times() -> None:
    config = {"num_hidden_layers": 2, "hidden_size": 3, "vocab_size": 11}
    lengths, predicted = [5, 2], 1
    per_token = 2 * (4 * 3 * 3 + 2 * 3 * 12)  # query, key, value, output; up and down
    attention = sum(2 * 2 * length * length * 3 for length in lengths)  # scores and their use
    head = predicted * 2 * (3 * 3 + 3 * 11)
    forward = 2 * (7 * per_token + attention) + head
    assert training_flops_per_token(config, lengths, predicted) == pytest.approx(3 * forward / 7)

"""The benchmark of tasks: settings that are taken, labels on first pieces, a page of means."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # benchmarks/ is not installed

from benchmarks.tasks.__main__ import page  # noqa: E402
from benchmarks.tasks.cases import CASES, our_settings  # noqa: E402
from benchmarks.tasks.peer import PEERS, first_pieces  # noqa: E402
from bertsmith.tasks.catalog import task_named  # noqa: E402


@pytest.mark.parametrize("name", CASES)
def test_bertsmith_takes_the_settings_of_every_case(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    settings = our_settings(case, tmp_path, tmp_path / "model", tmp_path / "out", seed=1)
    assert isinstance(settings, task_named(case.task).settings)
    assert settings.learning_rate == case.learning_rate
    assert case.task in PEERS


def test_labels_stand_on_first_pieces() -> None:
    assert first_pieces([None, 0, 0, 1, None], [5, 7]) == [-100, 5, -100, 7, -100]


def run(score: float, seconds: float, machine: str = "this one") -> dict[str, object]:
    """What a run of the benchmark leaves."""
    return {"score": score, "steps": 9, "seconds": seconds, "peak_megabytes": 800.0,
            "load_before": 0.1, "machine": machine}  # fmt: skip


def test_the_page_has_means_and_what_they_cost_for_each_machine() -> None:
    found = {
        "rte/bertsmith/0": run(0.5, 10.0),
        "rte/bertsmith/1": run(0.7, 20.0),
        "rte/transformers/0": run(0.6, 40.0),
        "rte/bertsmith/2": run(0.7, 20.0, "another"),
        "rte/transformers/2": run(0.6, 20.0, "another"),
        "imdb-whole/bertsmith/0": run(0.8, 30.0),
    }
    lines = page(found).splitlines()
    rows = {lines[i - 4]: line for i, line in enumerate(lines) if line.startswith("| RTE")}
    assert rows["this one"] == (
        "| RTE | accuracy | 60.00 ± 14.14 | 60.00 | 10 | 40 | 0.25× | 800 | 800 | 2 and 1 |"
    )
    assert "1.00×" in rows["another"]
    assert any(line.startswith("| IMDB, 1,000 whole reviews") for line in lines)

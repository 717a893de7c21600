"""What people see of a run: lines or a panel, a picture of its curves, events for TensorBoard."""

import io
import xml.etree.ElementTree as ET

import pytest
from limits import file_size_limit
from rich.console import Console

from bertsmith.training import display as display_module
from bertsmith.training.callback import Status
from bertsmith.training.curves import draw_curves
from bertsmith.training.display import Display
from bertsmith.training.trackers import tensorboard as events_module
from bertsmith.training.trackers.tensorboard import EventWriter

STEP = {
    "step": 1200, "loss": 3.5, "mlm_loss": 3.0, "nsp_loss": 0.5, "mlm_accuracy": 0.25,
    "nsp_accuracy": 0.75, "learning_rate": 1e-3, "real_tokens": 4000,
    "tokens_per_second": 20_000.0, "elapsed_seconds": 61.0,
}  # fmt: skip
HELD_OUT = {
    "step": 1200, "held_out_loss": 4.0, "held_out_mlm_loss": 3.25, "held_out_mlm_accuracy": 0.2,
    "held_out_nsp_loss": 0.6, "held_out_nsp_accuracy": 0.7, "elapsed_seconds": 62.0,
}  # fmt: skip
STATUS = Status(progress=0.25, elapsed_seconds=61.0, data_wait_fraction=0.015)


def shown(entries, monkeypatch, *, terminal=False):
    monkeypatch.setattr(display_module, "LIVE_SECONDS", 0.0)
    monkeypatch.setattr(display_module, "PLAIN_SECONDS", 0.0)
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100, color_system=None)
    with Display(console) as display:
        for entry in entries:
            display.write(entry, STATUS)
    return console.file.getvalue()


def test_plain_lines_where_there_is_no_terminal(monkeypatch):
    step = (
        "step 1,200 · masked LM loss {} (accuracy 25.0 %), next sentence loss 0.500 "
        "(accuracy 75.0 %) · 20,000 tokens/s · waited 1.5 % · 25 % · 1:01 spent, 3:03 to go"
    )
    assert shown([STEP, {**STEP, "mlm_loss": 2.0}, HELD_OUT], monkeypatch).splitlines() == [
        step.format("3.000"),
        step.format("2.000"),
        "step 1,200 · eval: masked LM loss 3.250 (accuracy 20.0 %), "
        "next sentence loss 0.600 (accuracy 70.0 %)",
    ]


def test_a_panel_on_a_terminal(monkeypatch):
    text = shown([STEP, HELD_OUT], monkeypatch, terminal=True)
    for part in ("masked LM", "3.250", "70.0 %", "20,000 tokens/s", "3:03 to go", "1.5 %"):
        assert part in text


def test_scores_that_are_no_accuracy_have_their_names(monkeypatch):
    figures = {"embed_loss": 0.25, "embed_score": 0.5, "embed_spearman": 0.5, "embed_pearson": 0.75}
    entry = {"step": 7, **{f"held_out_{name}": value for name, value in figures.items()}}
    assert "Spearman 0.500, Pearson 0.750" in shown([entry], monkeypatch)


def test_names_of_folders_are_not_styles():
    console = Console(file=io.StringIO(), width=100)
    Display(console).begin("on cpu\nfrom runs/bert[old]: kept 46 weights")
    assert console.file.getvalue() == "on cpu\nnote      from runs/bert[old]: kept 46 weights\n"


def journal(num_steps):
    steps = [
        {"step": i, "loss": 5 / i, "mlm_loss": 4 / i, "mlm_accuracy": 1 - 1 / i, "learning_rate": 1}
        for i in range(1, num_steps + 1)
    ]
    return [*steps, *({"step": e["step"], "held_out_mlm_loss": e["mlm_loss"]} for e in steps[::7])]


@pytest.mark.parametrize(("num_steps", "num_charts"), [(0, 0), (1500, 2)])
def test_an_svg_is_drawn(tmp_path, num_steps, num_charts):
    draw_curves(
        journal(num_steps), tmp_path / "curves.svg", {"data": {"held_out_unigram_entropy": 6.0}}
    )
    root = ET.parse(tmp_path / "curves.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(root.findall("{*}g")) == num_charts
    assert [file.name for file in tmp_path.iterdir()] == ["curves.svg"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_reads_the_events(tmp_path, monkeypatch):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    monkeypatch.setattr("bertsmith.training.trackers.tracker.WRITE_SECONDS", 0.0)
    with EventWriter(tmp_path, first_step=1) as events:
        for entry in journal(15):
            events.write(entry)
    found = accumulator.EventAccumulator(str(tmp_path)).Reload()
    assert [event.step for event in found.Scalars("mlm_loss")] == list(range(1, 16))
    assert found.Scalars("mlm_loss")[3].value == 1.0
    assert [event.step for event in found.Scalars("held_out_mlm_loss")] == [1, 8, 15]


def test_a_full_disk_ends_a_run_and_does_not_stop_it_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr("bertsmith.training.trackers.tracker.WRITE_SECONDS", 0.0)
    monkeypatch.setattr(events_module, "TENSORBOARD_FLUSH_SECONDS", 0.0)
    with (
        pytest.raises(OSError, match="File too large"),
        EventWriter(tmp_path, 1) as events,
        file_size_limit(500),
    ):
        for entry in journal(60):
            events.write(entry)

"""The picture of a run, and its TensorBoard events."""

import xml.etree.ElementTree as ET

import pytest
from limits import file_size_limit

from bertsmith.training.curves import draw_curves
from bertsmith.training.trackers import tensorboard as events_module
from bertsmith.training.trackers.tensorboard import EventWriter


def journal(num_steps):
    steps = [
        {"step": i, "loss": 5 / i, "mlm_loss": 4 / i, "mlm_accuracy": 1 - 1 / i, "learning_rate": 1}
        for i in range(1, num_steps + 1)
    ]
    return [
        *steps,
        *({"step": e["step"], "held_out_mlm_loss": e["mlm_loss"]} for e in steps[::7]),
    ]


@pytest.mark.parametrize(("num_steps", "num_charts"), [(0, 0), (1500, 2)])
def test_an_svg_is_drawn(tmp_path, num_steps, num_charts):
    draw_curves(journal(num_steps), tmp_path / "curves.svg", reference_loss=6.0)
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
    monkeypatch.setattr(events_module, "FLUSH_SECONDS", 0.0)
    with (
        pytest.raises(OSError, match="File too large"),
        EventWriter(tmp_path, 1) as events,
        file_size_limit(500),
    ):
        for entry in journal(60):
            events.write(entry)

"""Figures of a run in wandb and MLflow themselves, in files; skipped where not installed."""

import sys
from dataclasses import replace

import pytest
from refusals import refuses
from tiny_runs import small_job

from bertsmith.errors import BertsmithWarning, ConfigError
from bertsmith.pretraining.run import run_pretraining
from bertsmith.training.journal import read_journal
from bertsmith.training.settings import TrainingSettings
from bertsmith.training.trackers.tracker import Tracker


class Collector(Tracker):
    """A tracker that keeps what it receives."""

    def __init__(self):
        super().__init__()
        self.logged = []

    def log(self, step, values):
        self.logged.append((step, dict(values)))

    def close(self, *, failed):
        assert not failed


def test_steps_are_averaged_but_not_the_number_of_a_rank(monkeypatch):
    monkeypatch.setattr("bertsmith.training.trackers.tracker.WRITE_SECONDS", 60.0)
    with Collector() as collector:
        for step, loss, rank in ((1, 2.0, 0), (2, 4.0, 3)):
            entry = {"step": step, "loss": loss, "learning_rate": 0.5, "slowest_rank": rank}
            collector.write(entry)
    assert collector.logged == [(2, {"loss": 3.0, "learning_rate": 0.5, "slowest_rank": 3})]


def test_wandb_records_offline_without_a_key_and_never_asks(corpus_dir, tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="needs the wandb extra")
    for name in ("WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.warns(BertsmithWarning, match="found no API key"):
        run_pretraining(small_job(corpus_dir, steps=3, report_to="wandb"), tmp_path / "run")
    [record] = (tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb")
    written = record.read_bytes()
    for name in (b"held_out_mlm_loss", b"learning_rate", b"optim.learning_rate"):
        assert name in written


def test_mlflow_gets_settings_evals_and_means_of_steps(corpus_dir, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="needs the mlflow extra")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")  # bertsmith sets it otherwise
    job = small_job(corpus_dir, steps=3, report_to="mlflow")
    run_pretraining(job, tmp_path / "run")
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("bertsmith")
    [run] = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("run", "FINISHED")
    assert run.data.params["batch_size"] == "4" and run.data.params["family"] == "bert"
    journal = read_journal(tmp_path / "run" / "journal.jsonl")
    evals = {e["step"]: e["held_out_mlm_loss"] for e in journal if "held_out_mlm_loss" in e}
    found = client.get_metric_history(run.info.run_id, "held_out_mlm_loss")
    assert {metric.step: metric.value for metric in found} == evals
    assert client.get_metric_history(run.info.run_id, "mlm_loss")[-1].step == 3

    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nothing://at-all")
    with refuses(ConfigError, "--report-to mlflow", "MLFLOW_TRACKING_URI", worded=False):
        run_pretraining(replace(job, training=replace(job.training, seed=1)), tmp_path / "other")


def test_a_tracker_that_cannot_begin_leaves_the_folder_as_it_was(corpus_dir, tmp_path, monkeypatch):
    (tmp_path / "packages" / "mlflow").mkdir(parents=True)
    (tmp_path / "packages" / "mlflow" / "__init__.py").write_text("import a_package_it_lacks")
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")  # bertsmith sets it otherwise
    monkeypatch.delitem(sys.modules, "mlflow", raising=False)
    job = small_job(corpus_dir, steps=1, report_to="mlflow")
    with refuses(ConfigError, "--report-to", "mlflow", "a_package_it_lacks"):
        run_pretraining(job, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    without = replace(job, training=replace(job.training, report_to=None))
    run_pretraining(without, tmp_path / "run")
    run = (tmp_path / "run" / "run.json").read_bytes()
    with refuses(ConfigError, "--report-to", "mlflow", "a_package_it_lacks"):
        run_pretraining(job, tmp_path / "run", overwrite=True)
    assert (tmp_path / "run" / "run.json").read_bytes() == run
    assert not (tmp_path / "run" / "earlier-run").exists()


def test_what_is_not_installed_is_named_before_anything_is_read(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    (tmp_path / "wandb").mkdir()  # as it leaves one in the working folder
    for name in ("wandb", "mlflow"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        with refuses(ConfigError, f"--report-to {name}", f"pip install {name}"):
            TrainingSettings(steps=1, report_to=name)

"""The run's folder: an earlier run is safe unless it was named."""

from pathlib import Path

import pytest

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.training.run_folder import RunFolder


def earlier_run(path: Path, *, complete: bool) -> RunFolder:
    folder = RunFolder(path)
    folder.begin()
    folder.write_run({"summary": {}} if complete else {})
    (path / "notes.txt").write_text("mine")
    for name in ("journal.jsonl", "model.safetensors", "events.out.tfevents.1.host"):
        (path / name).write_text("x")
    (path / "checkpoints" / "step-00000001").mkdir(parents=True)
    return folder


def test_an_earlier_run_is_not_overwritten(tmp_path: Path) -> None:
    folder = earlier_run(tmp_path / "run", complete=True)
    with pytest.raises(ConfigError, match=r"earlier run.*--resume.*--overwrite.*another --out"):
        folder.check(resume=False, overwrite=False)
    folder.check(resume=False, overwrite=True)
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_a_model_alone_is_safe_too(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_text("x")
    with pytest.raises(ConfigError, match="earlier run"):
        RunFolder(tmp_path).check(resume=False, overwrite=False)


def test_beginning_removes_the_run_and_nothing_else(tmp_path: Path) -> None:
    folder = earlier_run(tmp_path / "run", complete=False)
    (folder.path / "model.safetensors").unlink()
    folder.begin()
    assert [path.name for path in folder.path.iterdir()] == ["notes.txt"]


def test_a_complete_run_is_put_aside_until_the_new_one_is_complete(tmp_path: Path) -> None:
    folder = earlier_run(tmp_path / "run", complete=True)
    folder.begin()
    assert sorted(path.name for path in folder.path.iterdir()) == ["earlier-run", "notes.txt"]
    assert (folder.earlier_dir / "model.safetensors").read_text() == "x"
    assert (folder.earlier_dir / "run.json").exists()
    folder.write_run({})  # the new run fails; the next attempt finds no model of its own
    folder.begin()
    assert (folder.earlier_dir / "model.safetensors").read_text() == "x"
    folder.finish()
    assert [path.name for path in folder.path.iterdir()] == ["notes.txt"]


def test_only_an_unfinished_run_is_resumed(tmp_path: Path) -> None:
    earlier_run(tmp_path / "open", complete=False).check(resume=True, overwrite=False)
    with pytest.raises(ConfigError, match=r"complete, there is nothing to resume"):
        earlier_run(tmp_path / "done", complete=True).check(resume=True, overwrite=False)
    with pytest.raises(ConfigError, match=r"no run to resume\. Leave out --resume"):
        RunFolder(tmp_path / "none").check(resume=True, overwrite=False)
    with pytest.raises(ConfigError, match="exclude each other"):
        RunFolder(tmp_path / "open").check(resume=True, overwrite=True)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="a file, not a folder"):
        RunFolder(tmp_path / "file").check(resume=False, overwrite=False)


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    folder = earlier_run(tmp_path / "run", complete=False)
    folder.run_path.write_text("{")
    with pytest.raises(CheckpointError, match=r"run\.json: damaged.*--overwrite"):
        folder.check(resume=True, overwrite=False)

"""The run's folder: an earlier run is safe unless it was named."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.training.run_folder import RunFolder


def earlier_run(path: Path, *, complete: bool) -> RunFolder:
    folder = RunFolder(path)
    folder.begin()
    series = {"kind": "seed", "series": {"seed": 0, "seeds": 2}}
    folder.write_run({**series, "summary": {}} if complete else series)
    for name in ("seed-0", "seed-1"):
        (folder.runs_dir / name / "checkpoints").mkdir(parents=True)
        (folder.runs_dir / name / "run.json").write_text("{}")
    folder.repeats_path.write_text("{}")
    (path / "notes.txt").write_text("mine")
    for name in ("journal.jsonl", "model.safetensors", "events.out.tfevents.1.host"):
        (path / name).write_text("x")
    (path / "checkpoints" / "step-00000001").mkdir(parents=True)
    return folder


@contextlib.contextmanager
def locked_by_another(path: Path) -> Iterator[None]:
    """In the block, another thread works in the folder, as another process would."""
    began, may_end = threading.Event(), threading.Event()

    def work() -> None:
        with RunFolder(path).locked():
            began.set()
            may_end.wait(30)

    thread = threading.Thread(target=work)
    thread.start()
    began.wait(30)
    try:
        yield
    finally:
        may_end.set()
        thread.join()


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


@pytest.mark.parametrize("name", ["tokenizer.json", "modules.json", "spiece.model", "notes.txt"])
def test_what_no_run_wrote_is_safe_too(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(ConfigError, match=r"not empty\. Choose another --out, or pass --overwrite"):
        RunFolder(tmp_path).check(resume=False, overwrite=False)
    RunFolder(tmp_path).check(resume=False, overwrite=True)
    assert (tmp_path / name).read_text() == "mine"


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "{}", '{"kind": 7, "series": []}', '{"kind": "seed", "series": {}}'],
)
def test_only_runs_of_a_series_are_its_runs(tmp_path: Path, text: str) -> None:
    folder = RunFolder(tmp_path)
    folder.run_path.write_text(text)
    assert folder.series_runs() == []
    folder.run_path.write_text('{"kind": "fold", "series": {"seed": 7, "folds": 2}}')
    assert folder.series_runs() == [tmp_path / "runs" / "fold-1", tmp_path / "runs" / "fold-2"]


@pytest.mark.parametrize("text", ["null", "7", "[1]", '"x"', "{"])
def test_a_damaged_run_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"run\.json: damaged \(.*\)\. Begin the run again"):
        RunFolder(tmp_path).read_run()


def test_leftovers_of_a_killed_run_are_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / ".run.json.123.tmp").touch()
    (tmp_path / "earlier-run").mkdir()
    (tmp_path / ".earlier-run.tmp").mkdir()
    RunFolder(tmp_path).check(resume=False, overwrite=False)


def test_beginning_takes_the_run_and_nothing_else(tmp_path: Path) -> None:
    folder = earlier_run(tmp_path / "run", complete=False)
    (folder.path / "model.safetensors").unlink()
    (folder.checkpoints_dir / "mine").mkdir()
    folder.begin()
    folder.finish()
    found = [path.relative_to(folder.path).as_posix() for path in folder.path.rglob("*")]
    assert sorted(found) == ["checkpoints", "checkpoints/mine", "notes.txt"]


def test_what_is_overwritten_without_a_model_is_put_aside_too(tmp_path: Path) -> None:
    names = ["config.json", "spiece.model", "special_tokens_map.json", "modules.json"]
    for name in names:
        (tmp_path / name).write_text(name)
    folder = RunFolder(tmp_path)
    folder.begin()
    assert [path.name for path in tmp_path.iterdir()] == ["earlier-run"]
    assert sorted(path.name for path in folder.earlier_dir.iterdir()) == sorted(names)
    (tmp_path / "model.safetensors").touch()  # the new run is stopped while it saves its model
    folder.write_run({})
    folder.begin()
    assert sorted(path.name for path in folder.earlier_dir.iterdir()) == sorted(names)


def test_an_unfinished_run_keeps_its_checkpoints_until_the_new_one_is_complete(
    tmp_path: Path,
) -> None:
    folder = earlier_run(tmp_path / "run", complete=False)
    folder.begin()
    assert not folder.checkpoints_dir.exists()
    assert (folder.earlier_dir / "checkpoints" / "step-00000001").is_dir()


class Killed(BaseException):
    """Ends everything at once."""


@pytest.mark.parametrize("has_earlier", [False, True])
def test_overwriting_may_be_killed_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_earlier: bool
) -> None:
    left = -1

    def killed_in(change: Callable[..., object]) -> Callable[..., object]:
        def call(*args: Any, **kwargs: Any) -> object:
            nonlocal left
            left -= 1
            if left == -1:
                raise Killed
            return change(*args, **kwargs)

        return call

    for name in ("rename", "replace", "unlink", "rmdir", "mkdir"):
        monkeypatch.setattr(os, name, killed_in(getattr(os, name)))
    for moment in range(100):
        folder = earlier_run(tmp_path / str(moment), complete=True)
        if has_earlier:
            folder.earlier_dir.mkdir()
            (folder.earlier_dir / "model.safetensors").write_text("an older one")
        before = folder.run_path.read_text()
        left = moment
        try:
            folder.begin()
            break
        except Killed:
            pass
        copies = [path.read_text() for path in folder.path.rglob("model.safetensors")]
        assert "x" in copies
        folder.begin()
        found = folder.earlier_dir
        assert (found / "model.safetensors").read_text() == "x"
        assert (found / "run.json").read_text() == before
        assert (found / "journal.jsonl").exists() and (found / "checkpoints").exists()
        assert {path.name for path in folder.path.iterdir()} == {"earlier-run", "notes.txt"}
    assert 5 < moment < 99


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


@pytest.mark.parametrize("flag", ["resume", "overwrite"])
def test_one_process_at_a_time_works_in_a_folder(tmp_path: Path, flag: str) -> None:
    folder = earlier_run(tmp_path / "run", complete=False)
    flags = {"resume": False, "overwrite": False, "of_series": True, flag: True}
    with (
        locked_by_another(folder.path),
        pytest.raises(ConfigError, match="run: another process is at work in it"),
    ):
        folder.check(**flags)
    with folder.locked(), RunFolder(folder.path).locked():  # a job, and a part of it
        folder.check(**flags)
    folder.check(**flags)


def test_who_takes_a_folder_looks_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")

    def check() -> None:
        folder.check(resume=False, overwrite=False)

    with folder.held(check):
        pass
    earlier_run(folder.path, complete=True)  # by another process, since the first look
    with pytest.raises(ConfigError, match="holds an earlier run"), folder.held(check):
        pass


def test_what_another_process_works_on_is_not_put_aside(tmp_path: Path) -> None:
    folder = earlier_run(tmp_path / "run", complete=False)
    before = sorted(folder.path.rglob("*"))
    with locked_by_another(folder.path), pytest.raises(ConfigError, match="at work in it"):
        folder.begin()
    assert sorted(folder.path.rglob("*")) == before


def test_only_an_unfinished_run_is_resumed(tmp_path: Path) -> None:
    earlier_run(tmp_path / "open", complete=False).check(
        resume=True, overwrite=False, of_series=True
    )
    with pytest.raises(ConfigError, match=r"complete, there is nothing to resume"):
        earlier_run(tmp_path / "done", complete=True).check(
            resume=True, overwrite=False, of_series=True
        )
    with pytest.raises(ConfigError, match=r"no run to resume\. Leave out --resume"):
        RunFolder(tmp_path / "none").check(resume=True, overwrite=False, of_series=True)
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

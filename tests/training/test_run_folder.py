"""The run's folder: an earlier run is safe unless it was named."""

import contextlib
import errno
import os
import shutil
import threading
from functools import partial
from pathlib import Path

import pytest
import torch
from refusals import refuses

from bertsmith.errors import CheckpointError, ConfigError, InputError
from bertsmith.system.files import remove_folder, removed_name
from bertsmith.training.run_folder import RunFolder
from bertsmith.training.run_machine import note_choices
from bertsmith.training.write_errors import naming_the_run


def earlier_run(path, *, complete):
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


@pytest.mark.parametrize(("kind", "number"), [("../../mine", 1), ("seed", 1_001)])
def test_an_altered_series_names_no_runs(tmp_path, kind, number):
    """`begin` moves the runs that run.json names: here it would move a folder outside."""
    folder = earlier_run(tmp_path / "run", complete=True)
    (tmp_path / "mine-1").mkdir()
    (tmp_path / "mine-1" / "notes.txt").write_text("mine")
    folder.write_run({"kind": kind, "series": {"seed": 0, f"{kind}s": number}, "summary": {}})
    assert folder.series_runs() == []
    folder.begin()
    assert (tmp_path / "mine-1" / "notes.txt").read_text() == "mine"
    assert not folder.run_path.exists()


@contextlib.contextmanager
def locked_by_another(path):
    """In the block, another thread works in the folder, as another process would."""
    began, may_end = threading.Event(), threading.Event()

    def work():
        with RunFolder(path).locked():
            began.set()
            may_end.wait(30)

    thread = threading.Thread(target=work)
    thread.start()
    began.wait(30)
    yield
    may_end.set()
    thread.join()


@pytest.mark.parametrize("before, flags, parts", [
    ("complete", "", ["run: ", "--resume", "--overwrite", "--out"]),
    ("complete", "resume", ["run: ", "--out", "--overwrite"]),
    ("none", "resume", ["run: ", "--resume"]),
    ("open", "resume overwrite", ["--resume and --overwrite"]),
    ("model.safetensors", "", ["run: ", "--resume", "--overwrite", "--out"]),
    ("tokenizer.json", "", ["run: ", "--out", "--overwrite"]), ("file", "", ["run: ", "--out"]),
    ("complete", "overwrite", None), ("open", "resume", None),
])  # fmt: skip
def test_what_is_there_is_safe_unless_it_was_named(tmp_path, before, flags, parts):
    path = tmp_path / "run"
    if before == "file":
        path.write_text("x")
    elif before in ("complete", "open"):
        earlier_run(path, complete=before == "complete")
    elif before != "none":
        path.mkdir()
        (path / before).write_text("mine")
    found = sorted(path.rglob("*"))
    with refuses(ConfigError, *parts) if parts else contextlib.nullcontext():
        asked = {name: name in flags for name in ("resume", "overwrite")}
        RunFolder(path).check(**asked, kind="series of runs")
    assert sorted(path.rglob("*")) == found


def test_a_damaged_run_is_told_and_leftovers_are_in_nobodys_way(tmp_path):
    folder = RunFolder(tmp_path)
    for name in (".run.json.123.tmp", ".page.html.lock", ".members.removed"):
        (tmp_path / name).touch()
    (tmp_path / "earlier-run").mkdir()
    (tmp_path / ".earlier-run.tmp").mkdir()
    folder.check(resume=False, overwrite=False)
    with locked_by_another(tmp_path), refuses(ConfigError, f"{tmp_path}: ", "--out"):
        folder.check(resume=False, overwrite=False)
    for text in ("null", "[1]", "{"):
        folder.run_path.write_text(text)
        for ask in (RunFolder.read_run, lambda it: it.check(resume=True, overwrite=False)):
            with refuses(CheckpointError, "run.json: ", "--overwrite", worded=text != "{"):
                ask(folder)


def test_a_run_on_a_gpu_goes_on_without_the_choices_of_a_cpu(tmp_path):
    folder = RunFolder(tmp_path)
    folder.write_run(note_choices(torch.device("cuda"), "bf16"))
    assert folder.read_choices() is None


def test_choices_that_are_damaged_are_named(tmp_path):
    folder = RunFolder(tmp_path)
    written = note_choices(torch.device("cpu"), "fp32")
    folder.write_run(written)
    assert folder.read_choices() is not None
    choices = written["compute_choices"]
    without = {name: value for name, value in choices.items() if name != "threads"}
    for value, part in (
        (without, "'compute_choices.threads' is missing"),
        ({**choices, "cores": 2}, "'compute_choices.cores' is not known"),
        ([1], "compute_choices is [1], and must be an object"),
        ({**choices, "threads": "x"}, "'compute_choices.threads' is \"x\""),
        ({**choices, "precision": None}, "'compute_choices.precision' is null"),
        ({**choices, "float32_route": 2}, "'compute_choices.float32_route' is 2"),
        ({**choices, "attention": {"a": None}}, "'compute_choices.attention' is {\"a\": null}"),
        ({**choices, "attention": {}}, "'compute_choices.attention' is {}"),
        ({**choices, "attention": {"fp32 reading 32": []}}, '{"fp32 reading 32": []}'),
        ({**choices, "attention": {"fp32 reading x": "fused"}}, '{"fp32 reading x": "fused"}'),
        ({**choices, "attention": {"fp32 reading 32": "quick"}}, '{"fp32 reading 32": "quick"}'),
    ):
        folder.write_run({"compute_choices": value})
        with refuses(CheckpointError, "run.json: ", part, "--overwrite"):
            folder.read_choices()


class Killed(BaseException):
    """Ends everything at once."""


def take_for_another_disk(disk, monkeypatch):
    """Let the system refuse to rename a file or a folder into or out of the folder `disk`."""
    replace = os.replace

    def replace_on_one_disk(source, target):
        places = [Path(os.path.realpath(path)).is_relative_to(disk) for path in (source, target)]
        if places[0] != places[1]:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(source))
        replace(source, target)

    monkeypatch.setattr(os, "replace", replace_on_one_disk)


def test_a_run_that_was_being_moved_to_another_disk_leaves_nothing(tmp_path, monkeypatch):
    """A process is killed while it removes a folder that it has copied; the next one ends this."""
    folder, disk = earlier_run(tmp_path / "run", complete=True), tmp_path / "disk"
    folder.runs_dir.rename(disk)
    folder.runs_dir.symlink_to(disk)
    take_for_another_disk(disk, monkeypatch)
    rmtree = shutil.rmtree

    def kill_at_removal(path, *args, **kwargs):
        if Path(path).suffix == ".removed" and Path(path).exists():
            raise Killed
        rmtree(path, *args, **kwargs)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(shutil, "rmtree", kill_at_removal)
        folder.begin()
    assert {path.name for path in disk.iterdir()} == {".seed-0.removed", "seed-1"}
    folder.begin()
    assert not list(disk.iterdir())
    found = [folder.earlier_dir / "runs" / name / "run.json" for name in ("seed-0", "seed-1")]
    assert [path.read_text() for path in found] == ["{}", "{}"]


def test_what_is_left_of_a_removed_folder_does_not_hinder_the_next_removal(tmp_path):
    """A process was killed while it removed an earlier folder of the same name."""
    folder = tmp_path / "step-00000001"
    for path in (folder, removed_name(folder)):
        path.mkdir()
        (path / "state").write_text("x")
    remove_folder(folder)
    assert not list(tmp_path.iterdir())


def test_what_is_left_of_a_removed_checkpoint_does_not_hinder_the_next_run(tmp_path):
    """The run began again after a checkpoint could not be removed whole, and saved it again."""
    folder = earlier_run(tmp_path / "run", complete=True)
    left = removed_name(folder.checkpoints_dir / "step-00000001")
    left.mkdir()
    folder.begin()
    assert not folder.run_path.exists()
    assert [path.name for path in (folder.earlier_dir / "checkpoints").iterdir()] == [
        "step-00000001"
    ]


def test_checkpoints_on_another_disk_are_put_aside(tmp_path, monkeypatch):
    """The system renames no folder to another disk; the user put a link in place of checkpoints."""
    folder, disk = earlier_run(tmp_path / "run", complete=True), tmp_path / "disk"
    folder.checkpoints_dir.rename(disk)
    folder.checkpoints_dir.symlink_to(disk)
    (disk / "step-00000001" / "state").write_text("x")
    (disk / ".step-00000002").write_text("a file")
    take_for_another_disk(disk, monkeypatch)
    folder.begin()
    aside = folder.earlier_dir / "checkpoints"
    assert (aside / "step-00000001" / "state").read_text() == "x"
    assert (aside / ".step-00000002").read_text() == "a file"
    assert folder.checkpoints_dir.is_symlink() and not list(disk.iterdir())


@pytest.mark.parametrize("has_earlier", [False, True])
def test_overwriting_may_be_killed_at_any_moment(tmp_path, monkeypatch, has_earlier):
    left = -1

    def killed_in(change):
        def call(*args, **kwargs):
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
        folder.write_run({})  # the new run fails; the next attempt finds no model of its own
        folder.begin()
        found = folder.earlier_dir
        assert (found / "model.safetensors").read_text() == "x"
        assert (found / "run.json").read_text() == before
        assert (found / "journal.jsonl").exists() and (found / "checkpoints").exists()
        assert {path.name for path in folder.path.iterdir()} == {"earlier-run", "notes.txt"}
        folder.finish()
        assert [path.name for path in folder.path.iterdir()] == ["notes.txt"]
    assert 5 < moment < 99


def test_one_process_at_a_time_works_in_a_folder(tmp_path):
    folder = earlier_run(tmp_path / "run", complete=False)
    check = partial(folder.check, resume=False, overwrite=True)
    before = sorted(folder.path.rglob("*"))
    with locked_by_another(folder.path):
        for act in (check, folder.begin):
            with refuses(ConfigError, "run: ", "--out"):
                act()
    assert sorted(folder.path.rglob("*")) == before
    with folder.locked(), RunFolder(folder.path).locked():  # a job, and a part of it
        check()
    check()


def test_who_takes_a_folder_looks_again(tmp_path):
    folder = RunFolder(tmp_path / "run")
    check = partial(folder.check, resume=False, overwrite=False)
    with folder.held(check):
        pass
    earlier_run(folder.path, complete=True)  # by another process, since the first look
    with refuses(ConfigError, "run: ", "--resume", "--overwrite"), folder.held(check):
        pass


def test_what_is_overwritten_without_a_model_is_put_aside_too(tmp_path):
    (tmp_path / "generator").mkdir()
    names = {"config.json", "spiece.model", "special_tokens_map.json", "modules.json"}
    for name in names:
        (tmp_path / name).write_text(name)
    folder = RunFolder(tmp_path)
    folder.begin()
    assert [path.name for path in tmp_path.iterdir()] == ["earlier-run"]
    assert {path.name for path in folder.earlier_dir.iterdir()} == names
    (tmp_path / "model.safetensors").touch()  # the new run is stopped while it saves its model
    folder.write_run({})
    folder.begin()
    assert {path.name for path in folder.earlier_dir.iterdir()} == names


def test_a_beginning_takes_the_run_and_nothing_else(tmp_path):
    folder = earlier_run(tmp_path / "run", complete=False)
    (folder.path / "model.safetensors").unlink()
    (folder.checkpoints_dir / "mine").mkdir()
    folder.begin()
    folder.finish()
    found = [path.relative_to(folder.path).as_posix() for path in folder.path.rglob("*")]
    assert sorted(found) == ["checkpoints", "checkpoints/mine", "notes.txt"]
    (folder.checkpoints_dir / "step-00000001").mkdir()
    folder.remove_checkpoints()
    assert [path.name for path in folder.checkpoints_dir.iterdir()] == ["mine"]


def test_a_run_that_holds_nothing_is_damaged(tmp_path):
    """And not the run of another command."""
    folder = RunFolder(tmp_path)
    folder.write_run({})
    with refuses(CheckpointError, "run.json: damaged (it is empty)", "--overwrite"):
        folder.check(resume=True, overwrite=False)


@pytest.mark.parametrize(("number", "advice"), [
    (errno.ENOSPC, "Free some space"), (errno.EDQUOT, "Free some space"), (errno.EIO, "Solve that"),
])  # fmt: skip
def test_an_error_of_the_disk_says_how_to_go_on(tmp_path, number, advice):
    folder = RunFolder(tmp_path / "run")
    folder.begin()
    folder.write_run({})
    with (
        refuses(InputError, "curves.svg: ", f"{advice}, then continue it, with: the same"),
        naming_the_run(folder, "the same"),
    ):
        raise OSError(number, os.strerror(number), str(folder.curves_path))

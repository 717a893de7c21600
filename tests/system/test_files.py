import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from refusals import refuses
from tiny_tokenizers import tiny_wordpiece

from bertsmith.compression.folder import check_model_out
from bertsmith.data.settings import CorpusSettings, ShardNumber
from bertsmith.data.sharded_build import build_shard
from bertsmith.errors import ConfigError, InputError
from bertsmith.system.files import atomic_dir, atomic_write, sha256_file, write_json
from bertsmith.system.locks import lock_file, try_lock
from bertsmith.system.output_files import lock_outputs
from bertsmith.vocabulary.train import check_tokenizer_out


def test_a_folder_at_which_a_disk_is_mounted_is_refused_before_the_work(tmp_path, monkeypatch):
    """The system would refuse to move it, as a volume of a container, when all is done."""
    out = tmp_path / "volume"
    out.mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: os.fspath(path) == str(out))
    has_begun = False
    with refuses(ConfigError, f"{out}: ", f"{out}/out"), atomic_dir(out):
        has_begun = True
    assert not has_begun and not list(out.iterdir())
    with refuses(ConfigError, f"{out}: ", f"{out}/out"):
        check_tokenizer_out(out, overwrite=False)
    with refuses(ConfigError, f"{out}: ", f"{out}/out"):
        check_model_out(out, tmp_path / "model", overwrite=False)
    (tmp_path / "a.txt").write_text("One sentence.")
    build = ([tmp_path / "a.txt"], tiny_wordpiece(), out, CorpusSettings(), ShardNumber(1, 2))
    with refuses(ConfigError, f"{out}: ", f"{out}/out"):
        build_shard(*build)
    assert not list(out.iterdir())
    with atomic_dir(out / "out") as folder:
        (folder / "a").write_text("a")
    assert (out / "out" / "a").exists()


def test_the_current_folder_is_not_replaced(tmp_path, monkeypatch):
    """A shell in it would stay in the folder that was there before, and find nothing."""
    inside = tmp_path / "out" / "inside"
    inside.mkdir(parents=True)
    for current, out in ((inside, Path()), (inside, Path("..")), (inside, tmp_path / "out")):
        monkeypatch.chdir(current)
        with refuses(ConfigError, f"{out}: ", f"{out / 'out'}"), atomic_dir(out):
            raise AssertionError("the work has begun")
        with refuses(ConfigError, f"{out}: "):
            check_tokenizer_out(out, overwrite=True)
    with atomic_dir(inside / "out") as folder:
        (folder / "a").write_text("a")
    assert Path("out/a").exists()


def test_a_failed_write_leaves_what_was_there(tmp_path):
    path, out = tmp_path / "a.txt", tmp_path / "out"
    path.write_text("old")
    out.mkdir()
    (out / "kept").write_text("old")
    with pytest.raises(RuntimeError), atomic_write(path) as file:
        file.write(b"half of the n")
        raise RuntimeError
    with pytest.raises(RuntimeError), atomic_dir(out) as folder:
        (folder / "half").write_text("new")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [file.name for file in out.iterdir()] == ["kept"]
    path.chmod(0o600)
    out.chmod(0o2770)
    with atomic_write(path) as file:
        file.write(b"new")
    with atomic_dir(out) as folder:
        (folder / "whole").write_text("new")
    assert path.read_text() == "new"
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path, out)] == [0o600, 0o2770]
    assert sha256_file(path).startswith("11507a0e2f5e69d5")
    assert [file.name for file in out.iterdir()] == ["whole"]
    assert sorted(tmp_path.iterdir()) == [path, out]


@pytest.mark.parametrize("mask", [0o077, 0o002])
def test_a_new_folder_has_the_usual_permissions(mask, tmp_path):
    """Those that the user's umask leaves, and the group of a folder that a group shares."""
    tmp_path.chmod(0o2770)
    before = os.umask(mask)
    try:
        with atomic_dir(tmp_path / "out"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o2777 & ~mask


def test_a_full_disk_or_a_file_taken_for_a_folder_is_said_in_one_line(tmp_path):
    with (
        refuses(InputError, f"{tmp_path}/out/b: "),
        atomic_dir(tmp_path / "out") as folder,
        atomic_write(folder / "b"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a.tsv").write_text("old")
    with refuses(InputError, "a.tsv/x: ", "a.tsv is a file"), atomic_write(tmp_path / "a.tsv/x"):
        pass
    assert (tmp_path / "a.tsv").read_text() == "old"


def test_a_file_that_cannot_be_copied_is_named(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "a").symlink_to("nowhere")
    with (
        refuses(InputError, f"{tmp_path}/out: ", f"{source}/a", worded=False) as error,
        atomic_dir(tmp_path / "out") as folder,
    ):
        shutil.copytree(source, folder, dirs_exist_ok=True)
    assert "None" not in str(error.value) and list(tmp_path.iterdir()) == [source]


def test_two_threads_may_write_one_file(tmp_path):
    path = tmp_path / "a"
    with atomic_write(path, "w") as file:
        other = threading.Thread(target=write_json, args=(path, {}))
        other.start()
        other.join()
        assert path.read_text() == "{}\n"
        file.write("the last to end")
    assert path.read_text() == "the last to end" and list(tmp_path.iterdir()) == [path]


def test_a_link_is_kept_and_its_target_replaced(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("old")
    for name in ("file", "folder"):
        (tmp_path / name).symlink_to(Path("elsewhere") / name)
    with atomic_write(tmp_path / "file") as file:
        file.write(b"new")
    with atomic_dir(tmp_path / "folder") as folder:
        (folder / "whole").write_text("new")
    assert all((tmp_path / name).is_symlink() for name in ("file", "folder"))
    assert (elsewhere / "file").read_text() == (elsewhere / "folder/whole").read_text() == "new"
    assert sorted(path.name for path in elsewhere.iterdir()) == ["file", "folder"]


def test_a_pipe_and_a_device_are_written_to_and_stay(tmp_path):
    pipe, received, device = tmp_path / "pipe", [], tmp_path / "null"
    os.mkfifo(pipe)
    device.symlink_to(os.devnull)  # that of the system is not put at risk
    reader = threading.Thread(target=lambda: received.append(pipe.read_text("utf-8")), daemon=True)
    reader.start()
    for path in (pipe, device):
        with atomic_write(path, "w") as file:
            file.write("Bär\n")
    reader.join()
    assert stat.S_ISFIFO(pipe.stat().st_mode) and device.is_char_device()
    assert received == ["Bär\n"]
    assert sorted(tmp_path.iterdir()) == [device, pipe]


def hold(outputs, read, model=None):
    with lock_outputs(outputs, read, model):
        pass


def test_what_is_read_is_not_written_over(tmp_path):
    (tmp_path / "a.jsonl").write_text("{}")
    (tmp_path / "b.jsonl").symlink_to("a.jsonl")
    for name in "ab":
        with refuses(ConfigError, f"--out {tmp_path}/{name}.jsonl"):
            hold({"--out": tmp_path / f"{name}.jsonl"}, tmp_path / "a.jsonl")
    with refuses(ConfigError, f"--page {tmp_path} is a folder"):
        hold({"--page": tmp_path}, None)
    new = tmp_path / "new.html"
    with refuses(ConfigError, f"--page {new}", "--errors"):
        hold({"--errors": new, "--page": new}, tmp_path / "a.jsonl")
    hold({"--errors": new, "--page": None}, tmp_path / "a.jsonl")
    hold({"--errors": Path(os.devnull), "--page": Path(os.devnull)}, Path(os.devnull))


@pytest.mark.parametrize("name", ["page.json", "page", "page.txt", "model.safetensors", "html"])
def test_a_page_has_its_ending(tmp_path, name):
    with refuses(ConfigError, f"--page: found '{tmp_path / name}'", ".html or .htm"):
        hold({"--page": tmp_path / name}, None)
    (tmp_path / name).write_text("old")
    with refuses(ConfigError, f"--page: found '{tmp_path / name}'", ".html or .htm"):
        hold({"--page": tmp_path / name}, None)
    for page in ("a.html", "a.htm", "a.HTML"):
        hold({"--page": tmp_path / page}, None)


@pytest.mark.parametrize("flag", ["--out", "--page", "--errors", "--scores"])
def test_a_file_of_the_model_is_not_replaced(tmp_path, flag):
    model, link = tmp_path / "model", tmp_path / "link.html"
    (model / "1_Pooling").mkdir(parents=True)
    for name in ("config.html", "1_Pooling/a.html"):
        (model / name).write_text("old")
        with refuses(ConfigError, f"{flag} {model / name}", f"the model, {model}, "):
            hold({flag: model / name}, None, model)
    link.symlink_to("model/config.html")
    with refuses(ConfigError, f"{flag} {link}", f"the model, {model}, "):
        hold({flag: link}, None, model)
    hold({flag: model / "new.html"}, None, model)
    hold({flag: tmp_path / "new.html"}, None, Path("org/name"))


BUILD = """
import sys
from pathlib import Path
from bertsmith.system.files import atomic_dir
with atomic_dir(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("half")
    print("begun", flush=True)
    sys.stdin.readline()
"""


def begin_to_build(path):
    process = subprocess.Popen(
        [sys.executable, "-c", BUILD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout and process.stdout.readline() == b"begun\n"
    return process


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    out = tmp_path / "out"
    with begin_to_build(out) as process:
        process.send_signal(signal.SIGKILL)
    stays = {f".a.{os.getppid()}.tmp", f".ab.{process.pid}.tmp", ".a.notes.tmp", ".out.notes.tmp"}
    for name in (f".a.{process.pid}.tmp", f".a.{process.pid}-7.tmp", *stays):
        (tmp_path / name).touch()
    assert len(list(tmp_path.iterdir())) == 7
    with atomic_dir(out) as folder:
        (folder / "whole").write_text("new")
    write_json(tmp_path / "a", {})
    assert {path.name for path in tmp_path.iterdir()} == {"out", "a", *stays}


def test_what_another_machine_writes_is_left_alone(tmp_path):
    # This machine has no process 99999999; another that shares the folder may have one.
    write_json(tmp_path / "a", 1)
    with (tmp_path / ".a.99999999-7.tmp").open("wb") as elsewhere:
        assert lock_file(elsewhere.fileno())
        write_json(tmp_path / "a", 2)
        assert Path(elsewhere.name).exists()
    write_json(tmp_path / "a", 3)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_file_is_locked_while_it_is_written(tmp_path):
    with atomic_write(tmp_path / "a"), atomic_write(tmp_path / "a"):
        temporary = list(tmp_path.iterdir())
        assert [try_lock(path, os.O_RDWR) for path in temporary] == [None, None]


def test_a_file_is_locked_until_it_has_its_name(tmp_path, monkeypatch):
    replace, locks = Path.replace, []

    def look_then_replace(path, target):
        locks.append(try_lock(path, os.O_RDWR))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", look_then_replace)
    with atomic_write(tmp_path / "a") as file:
        file.write(b"whole")
    assert locks == [None]
    assert (tmp_path / "a").read_bytes() == b"whole"
    lock = try_lock(tmp_path / "a", os.O_RDWR)
    assert lock is not None
    os.close(lock)


def test_a_process_that_still_builds_is_left_alone(tmp_path):
    out = tmp_path / "out"
    with begin_to_build(out) as process:
        with atomic_dir(out) as folder:
            (folder / "whole").write_text("new")
        assert [path.name for path in out.iterdir()] == ["whole"]
        process.communicate(b"\n")
    assert process.returncode == 0
    assert [path.name for path in out.iterdir()] == ["half"]
    assert list(tmp_path.iterdir()) == [out]


def test_a_stop_between_two_renames_loses_neither_folder(tmp_path, monkeypatch):
    out, rename = tmp_path / "out", Path.rename
    out.mkdir()
    (out / "whole").write_text("old")

    def stopped(path, target):
        renamed = rename(path, target)
        if path == out:
            raise KeyboardInterrupt
        return renamed

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "rename", stopped)
        with atomic_dir(out) as folder:
            (folder / "whole").write_text("new")
    assert (out / "whole").read_text() == "old"
    out.rename(tmp_path / ".out.abcdefgh.old")  # as kill -9 leaves it
    out.mkdir()
    with pytest.raises(RuntimeError), atomic_dir(out):
        raise RuntimeError
    assert (tmp_path / ".out.abcdefgh.old" / "whole").read_text() == "old"
    for word in ("new", "newer"):  # an earlier folder is removed only beside its successor
        with atomic_dir(out) as folder:
            (folder / "whole").write_text(word)
    assert list(tmp_path.iterdir()) == [out]

import errno
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bertsmith.errors import ConfigError, InputError
from bertsmith.system.files import (
    atomic_dir,
    atomic_write,
    hold_outputs,
    sha256_file,
    write_error,
    write_json,
)
from bertsmith.system.paths import utf8_name


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


def test_a_name_that_is_not_utf8_is_written_and_read(tmp_path):
    name = os.fsdecode(b"n\xff\n\x1b.txt")
    write_json(tmp_path / name, {"file": name})
    assert json.loads((tmp_path / name).read_bytes()) == {"file": name}
    with utf8_name(tmp_path / name) as readable:
        assert str(readable).encode()
        assert readable.read_bytes() == (tmp_path / name).read_bytes()
    with utf8_name(tmp_path) as readable:
        assert readable == tmp_path


def test_a_full_disk_or_a_file_taken_for_a_folder_is_said_in_one_line(tmp_path):
    with pytest.raises(InputError, match="disk is full") as error, atomic_write(tmp_path / "a"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert "\n" not in str(error.value)
    inner = rf"^{re.escape(str(tmp_path / 'out' / 'b'))}: the disk is full"
    with (
        pytest.raises(InputError, match=inner),
        atomic_dir(tmp_path / "out") as folder,
        atomic_write(folder / "b"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert list(tmp_path.iterdir()) == []
    assert "cannot be written" in str(write_error(tmp_path, PermissionError(13, "denied")))
    (tmp_path / "a.tsv").write_text("old")
    said = r"cannot be written \(.*(is a file|Not a directory)\)"
    for name in ("x", "x/y"):
        with pytest.raises(InputError, match=said), atomic_write(tmp_path / "a.tsv" / name):
            pass
    assert (tmp_path / "a.tsv").read_text() == "old"


def test_a_link_is_kept_and_its_target_replaced(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("old")
    (elsewhere / "folder").mkdir()
    for name in ("file", "new", "folder"):
        (tmp_path / name).symlink_to(Path("elsewhere") / name)
    for name in ("file", "new"):
        with atomic_write(tmp_path / name) as file:
            file.write(b"new")
            file.flush()
            assert (elsewhere / "file").read_text() == "old" or name == "new"
    with atomic_dir(tmp_path / "folder") as folder:
        (folder / "whole").write_text("new")
    assert all((tmp_path / name).is_symlink() for name in ("file", "new", "folder"))
    assert (elsewhere / "file").read_text() == (elsewhere / "new").read_text() == "new"
    assert [path.name for path in (elsewhere / "folder").iterdir()] == ["whole"]
    assert sorted(path.name for path in elsewhere.iterdir()) == ["file", "folder", "new"]


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


def hold(outputs, read):
    with hold_outputs(outputs, read):
        pass


def test_what_is_read_is_not_written_over(tmp_path):
    (tmp_path / "a.jsonl").write_text("{}")
    (tmp_path / "b.jsonl").symlink_to("a.jsonl")
    os.link(tmp_path / "a.jsonl", tmp_path / "c.jsonl")
    for name in "abc":
        path = tmp_path / "x" / ".." / f"{name}.jsonl"
        (tmp_path / "x").mkdir(exist_ok=True)
        with pytest.raises(ConfigError, match=r"^--out: found '.*', which is what is read\."):
            hold({"--out": path}, tmp_path / "a.jsonl")
    with pytest.raises(ConfigError, match=r"^--page: found '.*', which is a folder\."):
        hold({"--page": tmp_path}, None)
    new = tmp_path / "new.csv"
    with pytest.raises(ConfigError, match=r"^--page: found '.*', which is also --errors"):
        hold({"--errors": new, "--page": new}, tmp_path / "a.jsonl")
    hold({"--errors": new, "--page": None}, tmp_path / "a.jsonl")
    hold({"--errors": Path(os.devnull), "--page": Path(os.devnull)}, Path(os.devnull))


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
    for name in (f".a.{process.pid}.tmp", *stays):
        (tmp_path / name).touch()
    assert len(list(tmp_path.iterdir())) == 6
    with atomic_dir(out) as folder:
        (folder / "whole").write_text("new")
    write_json(tmp_path / "a", {})
    assert {path.name for path in tmp_path.iterdir()} == {"out", "a", *stays}


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


def test_an_earlier_folder_is_removed_only_beside_its_successor(tmp_path):
    out, earlier = tmp_path / "out", tmp_path / ".out.abcdefgh.old"
    earlier.mkdir()
    for _ in range(2):
        assert earlier.exists()
        with atomic_dir(out) as folder:
            (folder / "whole").touch()
    assert list(tmp_path.iterdir()) == [out]

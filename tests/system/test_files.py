import errno
import json
import os
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
    check_outputs,
    sha256_file,
    utf8_name,
    write_error,
    write_json,
)


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), atomic_write(path) as file:
        file.write(b"half of the n")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with atomic_write(path) as file:
        file.write(b"new")
    assert path.read_text() == "new"
    assert sha256_file(path).startswith("11507a0e2f5e69d5")


def test_a_failed_folder_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.mkdir()
    (path / "kept").write_text("old")
    with pytest.raises(RuntimeError), atomic_dir(path) as folder:
        (folder / "half").write_text("new")
        raise RuntimeError
    assert [file.name for file in path.iterdir()] == ["kept"]
    with atomic_dir(path) as folder:
        (folder / "whole").write_text("new")
    assert [file.name for file in path.iterdir()] == ["whole"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_name_that_is_not_utf8_is_written_and_read(tmp_path: Path) -> None:
    name = os.fsdecode(b"n\xff\n\x1b.txt")
    write_json(tmp_path / name, {"file": name})
    assert json.loads((tmp_path / name).read_bytes()) == {"file": name}
    with utf8_name(tmp_path / name) as readable:
        assert str(readable).encode()
        assert readable.read_bytes() == (tmp_path / name).read_bytes()
    with utf8_name(tmp_path) as readable:
        assert readable == tmp_path


def test_a_full_disk_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="disk is full") as error, atomic_write(tmp_path / "a"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []
    assert "cannot be written" in str(write_error(tmp_path, PermissionError(13, "denied")))


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(InputError, match=r"taken/out\.json: cannot be written"):
        write_json(tmp_path / "taken" / "out.json", {})


def test_a_link_is_kept_and_its_target_replaced(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(Path("elsewhere") / "target")
    with atomic_write(link) as file:
        file.write(b"new")
        file.flush()
        assert target.read_text() == "old"
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]


def test_a_link_to_nothing_gives_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    with atomic_write(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_a_link_to_a_folder_is_kept_and_the_folder_replaced(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "target").mkdir(parents=True)
    (tmp_path / "link").symlink_to(Path("elsewhere") / "target")
    with atomic_dir(tmp_path / "link") as folder:
        (folder / "whole").write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert [path.name for path in (tmp_path / "elsewhere" / "target").iterdir()] == ["whole"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "link"]


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_text("utf-8")), daemon=True)
    reader.start()
    with atomic_write(pipe, "w") as file:
        file.write("Bär\n")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    reader.join()
    assert received == ["Bär\n"]
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_device_is_written_to_and_stays_a_device(tmp_path: Path) -> None:
    device = tmp_path / "null"
    device.symlink_to(os.devnull)  # that of the system is not put at risk
    with atomic_write(device) as file:
        file.write(b"gone")
    assert device.is_char_device()
    assert [path.name for path in tmp_path.iterdir()] == ["null"]


def test_what_is_read_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}")
    (tmp_path / "b.jsonl").symlink_to("a.jsonl")
    os.link(tmp_path / "a.jsonl", tmp_path / "c.jsonl")
    for name in "abc":
        path = tmp_path / "x" / ".." / f"{name}.jsonl"
        (tmp_path / "x").mkdir(exist_ok=True)
        with pytest.raises(ConfigError, match=r"^--out: found '.*', which is what is read\."):
            check_outputs({"--out": path}, tmp_path / "a.jsonl")
    with pytest.raises(ConfigError, match=r"^--report: found '.*', which is a folder\."):
        check_outputs({"--report": tmp_path}, None)
    new = tmp_path / "new.csv"
    with pytest.raises(ConfigError, match=r"^--report: found '.*', which is also --errors"):
        check_outputs({"--errors": new, "--report": new}, tmp_path / "a.jsonl")
    check_outputs({"--errors": new, "--report": None}, tmp_path / "a.jsonl")
    check_outputs({"--errors": Path(os.devnull), "--report": Path(os.devnull)}, Path(os.devnull))


@pytest.mark.parametrize("name", ["x", "x/y"])
def test_a_file_taken_for_a_folder_is_said_in_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.tsv").write_text("old")
    with (
        pytest.raises(InputError, match=r"cannot be written \(.*(is a file|Not a directory)\)"),
        atomic_write(tmp_path / "a.tsv" / name),
    ):
        pass
    assert (tmp_path / "a.tsv").read_text() == "old"


BUILD = """
import sys
from pathlib import Path
from bertsmith.system.files import atomic_dir
with atomic_dir(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("half")
    print("begun", flush=True)
    sys.stdin.readline()
"""


def begin_to_build(path: Path) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-c", BUILD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout and process.stdout.readline() == b"begun\n"
    return process


def test_what_a_stopped_write_left_is_removed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "out"
    stopped = subprocess.Popen([sys.executable, "-c", ""])
    stopped.wait()
    (tmp_path / f".out.{stopped.pid}.tmp").write_text("half")
    stays = {f".out.{os.getppid()}.tmp", f".output.{stopped.pid}.tmp", ".out.notes.tmp"}
    for name in stays:
        (tmp_path / name).touch()
    write_json(path, {})
    assert {found.name for found in tmp_path.iterdir()} == {"out", *stays}


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / ".out.notes.tmp").write_text("the user's own")
    with begin_to_build(out) as process:
        process.send_signal(signal.SIGKILL)
    assert len(list(tmp_path.iterdir())) == 2
    with atomic_dir(out) as folder:
        (folder / "whole").write_text("new")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.notes.tmp", "out"]


def test_a_process_that_still_builds_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with begin_to_build(out) as process:
        with atomic_dir(out) as folder:
            (folder / "whole").write_text("new")
        assert [path.name for path in out.iterdir()] == ["whole"]
        process.communicate(b"\n")
    assert process.returncode == 0
    assert [path.name for path in out.iterdir()] == ["half"]
    assert list(tmp_path.iterdir()) == [out]


def test_an_earlier_folder_is_removed_only_beside_its_successor(tmp_path: Path) -> None:
    out, earlier = tmp_path / "out", tmp_path / ".out.abcdefgh.old"
    earlier.mkdir()
    with atomic_dir(out):
        pass
    assert earlier.exists()
    with atomic_dir(out):
        pass
    assert list(tmp_path.iterdir()) == [out]

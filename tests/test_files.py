import errno
from pathlib import Path

import pytest

from bertsmith.errors import InputError
from bertsmith.files import atomic_dir, atomic_write, sha256_file, write_error


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


def test_a_full_disk_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="disk is full") as error, atomic_write(tmp_path / "a"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []
    assert "cannot be written" in str(write_error(tmp_path, PermissionError(13, "denied")))

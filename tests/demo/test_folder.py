"""A demo takes the place of a demo, of nothing else, and only when it succeeds."""

from pathlib import Path

import pytest

from bertsmith.demo.folder import COMMAND, RESULT_NAME, fresh_folder, is_demo
from bertsmith.errors import ConfigError
from bertsmith.system.files import write_json


def make_demo(out: Path, word: str) -> None:
    with fresh_folder(out):
        (out / "report.html").write_text(word, encoding="utf-8")
        write_json(out / RESULT_NAME, {"command": COMMAND, "is_complete": True})


def test_new_demo_replaces_the_old(tmp_path: Path) -> None:
    out = tmp_path / "runs" / "demo"
    for word in ("one", "two"):
        make_demo(out, word)
        assert (out / "report.html").read_text(encoding="utf-8") == word
    assert [path.name for path in out.parent.iterdir()] == ["demo"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_old_demo_survives_a_failure(tmp_path: Path, error: type[BaseException]) -> None:
    out = tmp_path / "demo"
    make_demo(out, "one")
    with pytest.raises(error), fresh_folder(out):
        assert not (out / "report.html").exists()
        raise error
    assert (out / "report.html").read_text(encoding="utf-8") == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def test_failure_of_a_first_demo_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), fresh_folder(tmp_path / "demo"):
        raise RuntimeError
    assert not any(tmp_path.iterdir())


def test_old_demo_survives_a_killed_one(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    make_demo(out, "one")
    out.rename(tmp_path / ".demo.previous")
    out.mkdir()
    write_json(out / RESULT_NAME, {"command": COMMAND, "is_complete": False})
    with pytest.raises(RuntimeError), fresh_folder(out):
        raise RuntimeError
    assert (out / "report.html").read_text(encoding="utf-8") == "one"


@pytest.mark.parametrize("name", ["file", "folder"])
def test_other_things_are_never_replaced(tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    if name == "folder":
        out.mkdir()
        (out / "thesis.txt").write_text("mine", encoding="utf-8")
    else:
        out.write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"Choose another --out"), fresh_folder(out):
        pytest.fail("the block must not run")
    assert not is_demo(out)
    assert (out / "thesis.txt").exists() if name == "folder" else out.is_file()


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    make_demo(tmp_path / "demo", "one")
    assert is_demo(tmp_path / "demo")

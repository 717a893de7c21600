"""A demo takes the place of a demo, of nothing else, and only when it succeeds."""

import shutil

import pytest

from bertsmith.demo.folder import COMMAND, RESULT_NAME, fresh_folder, is_demo
from bertsmith.errors import ConfigError, InputError
from bertsmith.system.files import write_json


def make_demo(out, word):
    with fresh_folder(out):
        (out / "report.html").write_text(word, encoding="utf-8")
        write_json(out / RESULT_NAME, {"command": COMMAND, "is_complete": True})


def test_new_demo_replaces_an_empty_folder_and_an_old_demo(tmp_path):
    out = tmp_path / "runs" / "demo"
    out.mkdir(parents=True)
    for word in ("one", "two"):
        make_demo(out, word)
        (out / word).mkdir()  # of the user's own
        assert is_demo(out) and (out / "report.html").read_text(encoding="utf-8") == word
    assert [path.name for path in out.parent.iterdir()] == ["demo"]
    assert (out / "one").is_dir()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_failure_leaves_what_was_there(tmp_path, error):
    out = tmp_path / "demo"
    with pytest.raises(error), fresh_folder(out):
        raise error
    assert not any(tmp_path.iterdir())
    make_demo(out, "one")
    with pytest.raises(error), fresh_folder(out):
        assert not (out / "report.html").exists()
        raise error
    assert (out / "report.html").read_text(encoding="utf-8") == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def test_a_demo_gets_out_of_any_state_that_another_left(tmp_path, monkeypatch):
    out, previous = tmp_path / "demo", tmp_path / ".demo.previous"
    make_demo(out, "one")
    with monkeypatch.context() as patch, pytest.raises(InputError):
        patch.setattr("bertsmith.demo.folder.write_json", full)
        make_demo(out, "two")
    assert (out / "report.html").read_text(encoding="utf-8") == "one"
    # Stopped while it removed the earlier demo, of which demo.json was gone already.
    previous.mkdir()
    (previous / "corpus").mkdir()
    make_demo(out, "three")
    # Killed when it was complete, before it removed the earlier one.
    shutil.copytree(out, previous)
    (previous / "mine").mkdir()
    with pytest.raises(RuntimeError), fresh_folder(out):
        raise RuntimeError
    assert (out / "report.html").read_text(encoding="utf-8") == "three"
    assert (out / "mine").is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def full(*_):
    raise InputError("the disk is full")


def test_old_demo_survives_a_killed_one(tmp_path):
    out = tmp_path / "demo"
    make_demo(out, "one")
    out.rename(tmp_path / ".demo.previous")
    out.mkdir()
    write_json(out / RESULT_NAME, {"command": COMMAND, "is_complete": False})
    with pytest.raises(RuntimeError), fresh_folder(out):
        raise RuntimeError
    assert (out / "report.html").read_text(encoding="utf-8") == "one"


def test_other_things_are_never_replaced(tmp_path):
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    for path in (file, folder / "thesis.txt"):
        path.write_text("mine", encoding="utf-8")
    for out in (file, folder):
        with pytest.raises(ConfigError, match=r"Choose another --out"), fresh_folder(out):
            pytest.fail("the block must not run")
        assert not is_demo(out)
    assert file.read_text() == (folder / "thesis.txt").read_text() == "mine"

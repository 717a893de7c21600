"""A demo takes the place of a demo, of nothing else, and only when it succeeds."""

import pytest
from refusals import refuses

from bertsmith.demo.folder import COMMAND, EARLIER, PAGE, RESULT, fresh_folder, is_demo
from bertsmith.errors import ConfigError
from bertsmith.system.files import write_json


def make_demo(out, word):
    with fresh_folder(out):
        (out / PAGE).write_text(word, encoding="utf-8")
        write_json(out / RESULT, {"command": COMMAND, "is_complete": True})


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_failure_leaves_what_was_there(tmp_path, error):
    out = tmp_path / "demo"
    with pytest.raises(error), fresh_folder(out):
        raise error
    assert not any(tmp_path.iterdir())
    make_demo(out, "one")
    with pytest.raises(error), fresh_folder(out):
        raise error
    assert (out / PAGE).read_text(encoding="utf-8") == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def test_a_demo_replaces_the_one_before_and_what_a_killed_one_left(tmp_path):
    out = tmp_path / "demo"
    out.mkdir()
    make_demo(out, "one")
    (out / "mine").mkdir()  # of the user's own
    make_demo(out, "two")
    # Killed while it worked: the earlier demo waits in a folder of its own.
    (out / EARLIER).mkdir()
    for name in (RESULT, PAGE):
        (out / name).rename(out / EARLIER / name)
    write_json(out / RESULT, {"command": COMMAND, "is_complete": False})
    (out / "corpus").mkdir()
    with pytest.raises(RuntimeError), fresh_folder(out):
        raise RuntimeError
    assert (out / PAGE).read_text(encoding="utf-8") == "two"
    # Killed when it was complete, before it removed the earlier one.
    (out / EARLIER).mkdir()
    make_demo(out, "three")
    assert (out / PAGE).read_text(encoding="utf-8") == "three"
    assert {path.name for path in out.iterdir()} == {RESULT, PAGE, "mine"}
    # Killed while it removed the earlier one.
    (out / EARLIER).mkdir()
    (out / EARLIER / PAGE).write_text("two", encoding="utf-8")
    with pytest.raises(RuntimeError), fresh_folder(out):
        raise RuntimeError
    assert is_demo(out)
    assert (out / PAGE).read_text(encoding="utf-8") == "three"
    # Killed while it moved the earlier one away, or back.
    (out / EARLIER).mkdir()
    (out / RESULT).rename(out / EARLIER / RESULT)
    with pytest.raises(RuntimeError), fresh_folder(out):
        raise RuntimeError
    assert is_demo(out)
    assert (out / PAGE).read_text(encoding="utf-8") == "three"


def test_other_things_are_never_replaced(tmp_path):
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    for path in (file, folder / "thesis.txt"):
        path.write_text("mine", encoding="utf-8")
    for out in (file, folder):
        with refuses(ConfigError, f"{out}: ", "--out"), fresh_folder(out):
            pytest.fail("the block must not run")
        assert not is_demo(out)
    assert file.read_text() == (folder / "thesis.txt").read_text() == "mine"

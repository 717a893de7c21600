"""Outputs belong to one process at a time, from its start to its end."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from tiny_models import save_tiny, tiny_tokenizer, write_reviews

from bertsmith.cli import main
from bertsmith.errors import ConfigError, InputError
from bertsmith.system.files import hold_folder, hold_outputs

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")

HOLD = """
import sys
from contextlib import nullcontext
from pathlib import Path
from bertsmith.system.files import hold_folder, hold_outputs
kind, out = sys.argv[1], Path(sys.argv[2])
with hold_folder(out) if kind == "folder" else hold_outputs({"--out": out}, None):
    print("held", flush=True)
    input()
"""


@contextmanager
def another_process(kind, out):
    """Another process that holds an output until it is killed at the end of the block."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLD, kind, str(out)], **pipes) as process:
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def place(tmp_path):
    save_tiny(tmp_path / "model", "classify", labels=("neg", "pos"))
    tiny_tokenizer().save(tmp_path / "tok")
    (tmp_path / "text.txt").write_text("The film was good. The story was dull.\n\n" * 50)
    write_reviews(tmp_path / "data.csv", 4)
    return tmp_path


COMMANDS = {
    "tokenizer train {0}/text.txt --vocab-size 60 --out {out}": "folder",
    "corpus build {0}/text.txt --tokenizer {0}/tok --processes 1 --out {out}": "folder",
    "predict {0}/model --file {0}/text.txt --device cpu --out {out}.jsonl": "file",
    "evaluate {0}/model --data {0}/data.csv --device cpu --page {out}.html": "file",
}


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_second_process_is_told_at_its_start(place, refused, kind):
    out = place / "new" / "out"  # neither is there yet
    for command in (command for command in COMMANDS if COMMANDS[command] == kind):
        words = command.format(place, out=out).split()
        with another_process(kind, words[-1]):
            line = refused(*words)
        assert words[-1] in line
        assert "another process" in line and "Wait until it ends" in line
    visible = [path.name for path in out.parent.iterdir() if not path.name.startswith(".")]
    assert visible == (["out"] if kind == "folder" else [])  # an empty folder
    with hold_folder(out) if kind == "folder" else hold_outputs({"--out": Path(words[-1])}, None):
        pass


def test_an_output_that_another_process_finished_meanwhile_is_looked_at_again(place, refused):
    out = place / "out"
    words = f"tokenizer train {place}/text.txt --vocab-size 60 --out".split()
    with another_process("folder", out) as other:
        main([*words, f"{out}-2"])
        (place / "out-2/vocab.txt").rename(out / "vocab.txt")
        other.communicate("\n")
    assert "--overwrite" in refused(*words, out)


def test_threads_do_not_share_what_they_hold(tmp_path):
    def try_it():
        with hold_folder(tmp_path / "out"):
            pass

    with (
        hold_folder(tmp_path / "out"),
        hold_folder(tmp_path / "out"),
        ThreadPoolExecutor(1) as pool,
        pytest.raises(ConfigError, match="another process"),
    ):
        pool.submit(try_it).result()
    assert not (tmp_path / "out").exists()


def test_a_link_to_itself_is_no_place_for_a_model(refused, place):
    loop, data = place / "loop", place / "data.csv"
    loop.symlink_to("loop")
    command = ["finetune", "classify", "--model", place / "model", "--train", data, "--eval", data]
    assert f"{loop}: cannot be written" in refused(*command, "--out", loop, "--device", "cpu")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder refuses the superuser")
def test_an_output_that_cannot_be_written_is_named_as_the_user_does():
    with pytest.raises(InputError, match=r"^/proc/a\.csv: cannot be written"):
        hold_outputs({"--out": Path("/proc/a.csv")}, None).__enter__()

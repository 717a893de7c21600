"""Outputs belong to one process at a time, from its start to its end."""

import importlib
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from refusals import refuses
from tiny_models import save_tiny

from bertsmith.cli import main
from bertsmith.errors import ConfigError, InputError
from bertsmith.system.locks import hold_folder
from bertsmith.system.output_files import lock_outputs

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")

HOLD = """
import sys
from contextlib import nullcontext
from pathlib import Path
from bertsmith.system.locks import hold_folder
from bertsmith.system.output_files import lock_outputs
kind, out = sys.argv[1], Path(sys.argv[2])
with hold_folder(out) if kind == "folder" else lock_outputs({"--out": out}, None):
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
def train(tmp_path):
    """The words of a command that writes a folder, before the name of that."""
    (tmp_path / "text.txt").write_text("The film was good. The story was dull.\n\n" * 50)
    return f"tokenizer train {tmp_path}/text.txt --vocab-size 60 --out".split()


@pytest.mark.same_on_all_computers
@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_second_process_is_told_at_its_start(tmp_path, train, refused, kind):
    out = tmp_path / "new" / "out"  # neither is there yet
    words = [*train, out]
    if kind == "file":
        out = out.with_suffix(".jsonl")
        model = save_tiny(tmp_path / "model", "classify", labels=("neg", "pos"))
        words = ["predict", model, "a film", "--out", out]
    with another_process(kind, out):
        line = refused(*words)
    assert str(out) in line and "--out" in line
    visible = [path.name for path in out.parent.iterdir() if not path.name.startswith(".")]
    assert visible == (["out"] if kind == "folder" else [])  # an empty folder
    with hold_folder(out) if kind == "folder" else lock_outputs({"--out": out}, None):
        pass


def test_an_output_that_another_process_finished_meanwhile_is_looked_at_again(
    tmp_path, train, refused
):
    out = tmp_path / "out"
    with another_process("folder", out) as other:
        main([*train, f"{out}-2"])
        (tmp_path / "out-2/vocab.txt").rename(out / "vocab.txt")
        other.communicate("\n")
    assert "--overwrite" in refused(*train, out)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder refuses the superuser")
def test_an_output_that_cannot_be_written_is_named_as_the_user_does():
    with refuses(InputError, "/proc/a.csv: ", worded=False):
        lock_outputs({"--out": Path("/proc/a.csv")}, None).__enter__()


@pytest.mark.parametrize("line", [
    "tokenizer train {texts} --vocab-size 60",
    "tokenizer extend --from {model} --texts {texts}/a.txt",
    "corpus build {texts} --tokenizer {model}",
    "corpus build x --tokenizer {model}",
    "pretrain --steps 1 --corpus {texts}",
    "pretrain --steps 1 --corpus x --from {model}",
    "finetune classify --train a.csv --eval b.csv --model {model}",
    "finetune classify --train a.csv --eval b.csv --teacher {model}",
    "distill pretraining --steps 1 --teacher x --corpus {texts}",
    "compress {model} --num-layers 1",
    "compress {model} --vocabulary {texts}",
    "glue --data {texts} --model x",
])  # fmt: skip
def test_an_output_within_a_folder_that_is_read_is_refused(tmp_path, refused, line):
    texts, model = tmp_path / "texts", save_tiny(tmp_path / "model")
    texts.mkdir()
    (texts / "a.txt").write_text("The film was good.\n")
    read = texts if "{texts}" in line and "extend" not in line else model
    words = line.format(texts=texts, model=model).split()
    message = refused(*words, "--out", read / "new" / "out", worded=False)
    assert f"is inside {read}, which this command reads" in message
    assert not (read / "new").exists()


def interrupting(function):
    """Return a function that is interrupted by Ctrl-C when it has done its work, the first time."""
    calls = []

    def call(*arguments):
        result = function(*arguments)
        calls.append(arguments)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return result

    return call


@pytest.mark.parametrize(("module", "name"), [("os", "open"), ("fcntl", "flock"), ("os", "fstat")])
def test_a_stop_while_an_output_is_locked_leaves_no_lock_file(tmp_path, monkeypatch, module, name):
    module = importlib.import_module(module)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(module, name, interrupting(getattr(module, name)))
        with lock_outputs({"--out": tmp_path / "out"}, None):
            pass
    assert list(tmp_path.iterdir()) == []
    with lock_outputs({"--out": tmp_path / "out"}, None):
        assert len(list(tmp_path.iterdir())) == 1


def test_a_stop_while_an_output_is_locked_leaves_the_lock_of_another_process(tmp_path, monkeypatch):
    out = tmp_path / "out"
    with another_process("file", out):
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(os, "open", interrupting(os.open))
            with lock_outputs({"--out": out}, None):
                pass
        with refuses(ConfigError, "--out", "another process"), lock_outputs({"--out": out}, None):
            pass

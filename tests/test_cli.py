"""The program and the package as a whole: commands, public names, output of any kind."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from refusals import check_message, refuses
from tiny_models import save_tiny
from tiny_runs import FP32

import bertsmith
from bertsmith.cli import main
from bertsmith.commands.catalog import COMMANDS


def run_python(program: str, **environment: str) -> bytes:
    """Return what a program prints in a process of its own."""
    command = [sys.executable, "-c", program]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONIOENCODING"}
    return subprocess.run(command, check=True, capture_output=True, env=env | environment).stdout


def test_help_names_every_command(typed):
    overview = typed("--help").out
    for name, command in COMMANDS.items():
        assert f"  {name} " in overview and command.summary in overview
    steps = ("tokenizer train", "corpus build", "pretrain", "fill", "pretrain gpt", "finetune")
    places = [overview.index(f"\n  {step} ") for step in steps]
    assert places == sorted(places)
    found = typed("tokenizer", "--help")
    assert found.err == ""
    assert [line.split()[:2] for line in found.out.splitlines()] == [
        ["tokenizer", "train"],
        ["tokenizer", "extend"],
    ]
    # What has no options shows the same for --help-all.
    assert typed("--help-all").out == overview
    assert typed("tokenizer", "--help-all").out == found.out


def test_json_is_one_object_on_standard_output(bertsmith):
    assert json.loads(bertsmith("hardware", "--json"))["device"]


def test_public_names_are_sorted_and_can_be_used():
    assert bertsmith.__all__ == sorted(bertsmith.__all__) == dir(bertsmith)
    assert all(getattr(bertsmith, name) is not None for name in bertsmith.__all__)
    with refuses(AttributeError, "'bertsmith'", "'loadd'"):
        _ = bertsmith.loadd


def test_neither_the_overview_nor_the_tokenizer_loads_torch():
    run_python(
        "import sys; from bertsmith.cli import main; main(['--help']); "
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules; "
        "import bertsmith; bertsmith.Tokenizer; assert 'torch' not in sys.modules"
    )


def test_garbage_collection_stays_off_where_the_caller_turned_it_off():
    shown = run_python(
        "import gc; gc.disable(); from bertsmith.cli import main; main(['hardware', '--json']); "
        "import sys; print(); print('torch' in sys.modules, gc.isenabled())"
    )
    assert shown.endswith(b"True False\n")


def test_threads_of_a_python_program_do_not_spin_for_long(monkeypatch):
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    program = "import bertsmith, os; print(os.environ['GOMP_SPINCOUNT'])"
    assert run_python(program) == b"1000\n"
    assert run_python(program, GOMP_SPINCOUNT="7") == b"7\n"


def test_what_the_terminal_cannot_show_is_replaced():
    program = "from bertsmith.cli import main; main(['-V']); print('no → folder \\udcff')"
    assert b"no ? folder ?" in run_python(program, PYTHONIOENCODING="cp1252")
    shown = run_python(program, LC_ALL="C.UTF-8", PYTHONUTF8="0")
    assert "no → folder \\udcff".encode() in shown
    assert "no → folder \\udcff".encode() in run_python(program, PYTHONIOENCODING="utf8")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device is always full")
def test_a_result_that_finds_no_room_is_an_error_in_one_line():
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "bertsmith", "--version"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=buffered,
        )  # fmt: skip
    [line] = done.stderr.splitlines()
    assert done.returncode == 2
    check_message(line, "bertsmith: output: ")


def test_quiet_prints_the_result_alone(typed, refused, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("a cat sat\n\non the mat\n\n" * 20)
    command = ["tokenizer", "train", texts, "--vocab-size", 40, "--no-compare", "--json", "-q"]
    command += ["--out", tmp_path / "tokenizer"]
    found = typed(*command)
    assert found.err == "" and json.loads(found.out)["vocab_size"] <= 40
    assert "--overwrite" in refused(*command)  # errors are told all the same


def test_quiet_and_debug_may_stand_before_help_and_are_words_after_two_dashes(typed, tmp_path):
    usual = typed("help", "completion").out
    assert typed("-q", "--debug", "help", "completion").out == usual
    model = save_tiny(tmp_path / "model", "classify", labels=("neg", "pos"))
    assert typed("predict", model, *FP32, "-q", "--", "-v").out.endswith("-v\n")
    assert typed("predict", *FP32, "-q", "--", model, "--help").out.endswith("--help\n")


def test_ctrl_c_ends_a_command_with_130(capsys, monkeypatch):
    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("bertsmith.commands.completion.main", stop)
    with pytest.raises(SystemExit) as stopped:
        main(["completion"])
    out, err = capsys.readouterr()
    assert (stopped.value.code, out) == (130, "")
    check_message(err, "Ctrl-C")


def test_a_thread_that_cannot_start_may_be_a_limit_of_processes(refused, monkeypatch):
    def start_thread(*args):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("bertsmith.commands.completion.main", start_thread)
    line = refused("completion")
    assert "ulimit -u" in line and "--threads" in line


def test_help_for_a_reader_that_has_left():
    words = [sys.executable, "-m", "bertsmith", "--help"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 0)


@pytest.mark.parametrize("stream, word, line", [
    ("stdout", "--version", f"bertsmith {bertsmith.__version__}"),
    ("stderr", "nope", "bertsmith: 'nope' is not a command. 'bertsmith --help' lists them."),
], ids=["stdout", "stderr"])  # fmt: skip
def test_a_full_stream_that_does_not_block_is_waited_for(stream, word, line):
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x")
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: writer}
    with subprocess.Popen([sys.executable, "-m", "bertsmith", word], **pipes) as process:
        os.close(writer)
        with pytest.raises(subprocess.TimeoutExpired):  # it has not ended without the line
            process.wait(2)
        with os.fdopen(reader, "rb") as shown:
            assert shown.read().lstrip(b"x").decode() == f"{line}\n"
    assert process.returncode == (2 if stream == "stderr" else 0)


def test_streams_of_other_kinds_are_left_alone(monkeypatch):
    monkeypatch.setattr("sys.stdout", shown := io.StringIO())
    main(["--version"])
    assert shown.getvalue() == f"bertsmith {bertsmith.__version__}\n"


def test_a_file_is_not_opened_in_place_of_a_closed_standard_error(tmp_path):
    program = (
        "import sys; from bertsmith.cli import main; main(['-V']); file = open('journal', 'w'); "
        "print('step', file=file, flush=True); print('note', file=sys.stderr)"
    )
    words = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-c", program]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, cwd=tmp_path)
    assert (tmp_path / "journal").read_text() == "step\n"


def test_a_folder_that_was_deleted_is_told(tmp_path):
    """Under it, libraries that torch loads by name are not found, and end the process."""
    line = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" -m bertsmith predict a b'
    done = subprocess.run(
        ["sh", "-c", line, sys.executable],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(Path(bertsmith.__file__).parents[1])},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bertsmith: the folder that you are in no longer exists")

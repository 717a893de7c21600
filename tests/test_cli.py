import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bertsmith import __version__
from bertsmith.cli import COMMANDS, main


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    try:
        main(args)
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_overview_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for name, command in COMMANDS.items():
        assert f"  {name} " in out and command.summary in out
    assert run(capsys, "--version")[1] == f"bertsmith {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, out, _ = run(capsys, *name.split(), "--help")
    assert code == 0
    assert f"bertsmith {name}" in out


def test_unknown_commands_name_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "pretrian")
    assert (code, out) == (2, "")
    assert "Did you mean 'pretrain'?" in err
    code, _, err = run(capsys, "corpus", "make")
    assert code == 2
    assert "build, inspect" in err


def test_the_first_word_of_a_command_lists_the_second_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run(capsys, "tokenizer", "--help")
    assert (code, err) == (0, "")
    assert [line.split()[:2] for line in out.splitlines()] == [
        ["tokenizer", "train"],
        ["tokenizer", "extend"],
    ]


def test_json_is_one_object_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "hardware", "--json")
    assert code == 0
    assert json.loads(out)["device"]


def test_overview_does_not_load_torch() -> None:
    program = (
        "import sys; from bertsmith.cli import main; main(['--help']); "
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_what_the_terminal_cannot_show_is_replaced() -> None:
    for encoding, shown in (("cp1252", b"no ? folder"), ("utf-8", "no → folder".encode())):
        program = "from bertsmith.cli import main; main(['-V']); print('no → folder')"
        environment = {**os.environ, "PYTHONIOENCODING": encoding}
        done = subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, env=environment
        )
        assert shown in done.stdout


@pytest.mark.parametrize("utf8_mode", ["0", "1"])
def test_a_name_that_is_not_utf8_is_shown(utf8_mode: str) -> None:
    program = (
        "import json; from bertsmith.cli import main; main(['-V']); "
        "print(json.dumps('n\\udcff', ensure_ascii=False))"
    )
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "PYTHONUTF8": utf8_mode}
    environment.pop("PYTHONIOENCODING", None)
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, env=environment
    )
    assert json.loads(done.stdout.splitlines()[1]) == "n\udcff"


def test_streams_of_other_kinds_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", shown := io.StringIO())
    main(["--version"])
    assert shown.getvalue() == f"bertsmith {__version__}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device is always full")
@pytest.mark.parametrize("arguments", [["--version"], ["hardware"]])
def test_a_result_that_finds_no_room_is_an_error_in_one_line(arguments: list[str]) -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "bertsmith", *arguments],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=buffered,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == (
        "bertsmith: output: No space left on device. Free some space or choose another folder.\n"
    )

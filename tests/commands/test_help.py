"""Help of commands: without torch, short, complete, and as the settings are."""

import os
import re
import subprocess
import sys
from shutil import which

import pytest

from bertsmith.cli import live_page
from bertsmith.commands import flags
from bertsmith.commands.catalog import COMMANDS
from bertsmith.commands.help import pages

MOST_LINES = 50


def test_the_table_has_the_help_of_the_settings():
    assert pages() == {name: live_page(name) for name in COMMANDS}, (
        "run: python tools/write_help.py"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_short_and_points_to_the_rest(bertsmith, name):
    short = bertsmith(*name.split(), "--help")
    assert f"bertsmith {name}" in short
    assert len(short.splitlines()) <= MOST_LINES
    assert max(map(len, short.splitlines())) <= 80
    whole = bertsmith(*name.split(), "--help-all")
    for option in pages()[name].options:
        assert option.flag in whole
        assert option.help, f"{option.flag} explains nothing"
        assert option.is_advanced or option.flag in short


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_the_flags_that_are_parsed(monkeypatch, capsys, name):
    """The parser's own help, which nobody sees, names the same flags."""
    monkeypatch.setattr(flags, "HELP_FLAGS", set())
    with pytest.raises(SystemExit):
        live_page(name)
    parsed = set(re.findall(r"^[│ ] ?(--[a-z][a-z0-9-]+)", capsys.readouterr().out, re.M))
    shown = {each.flag.split()[0] for each in pages()[name].options if not each.is_positional}
    assert shown - {"--recipe"} == parsed


def test_help_needs_no_model(bertsmith):
    assert "bertsmith predict" in bertsmith("predict", "no/such/folder", "-h")


def test_help_of_a_recipe_has_its_defaults(bertsmith):
    out = bertsmith("pretrain", "--recipe", "quarter-hour", "--help-all")
    assert "(default: muon)" in out and "(default: adamw)" not in out


def test_help_loads_no_torch():
    program = (
        "import sys, time; from bertsmith.cli import main; main(sys.argv[1:]); "
        "assert 'torch' not in sys.modules and time.process_time() < 0.5"
    )
    for words in (["pretrain", "--help"], ["finetune", "classify", "--help-all"]):
        subprocess.run([sys.executable, "-c", program, *words], check=True, capture_output=True)


@pytest.mark.parametrize("shell", [("bash", "-c"), ("zsh", "-fc")], ids=["bash", "zsh"])
def test_the_completion_knows_commands_and_options(bertsmith, shell, tmp_path):
    if which(shell[0]) is None:
        pytest.skip(f"no {shell[0]} on this computer")
    script = bertsmith("completion")
    typed = (
        # As zsh's bashcompinit calls a function.
        '[ -n "$ZSH_VERSION" ] && emulate sh && setopt kshglob noshglob braceexpand; '
        "COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _bertsmith; "
        "echo ${{COMPREPLY[@]}}"
    )
    for words, expected in (
        ("bertsmith pret", "pretrain"),
        ("bertsmith finetune cl", "classify"),
        ("bertsmith pretrain --corpus x --min", "--minutes"),
        ("bertsmith finetune tag --word-c", "--word-column"),
        ("bertsmith pretrain --corpus x --preset mi", "mini"),
        ("bertsmith pretrain --recipe q", "quarter-hour"),
        ("bertsmith pretrain --pairs n", "next_sentence none"),
        ("bertsmith finetune tag --recipe f", "few-labels"),
        ("bertsmith compare ma", "masks"),
    ):
        done = subprocess.run(
            [*shell, f"{script}\n{typed.format(words=words)}"],
            capture_output=True, text=True, check=True, env={**os.environ, "HOME": str(tmp_path)},
        )  # fmt: skip
        assert done.stderr == ""
        found = done.stdout.split()
        # bash takes these; zsh takes those of them that begin with the word.
        candidates = expected.split()
        if shell[0] == "bash":
            assert sorted(found) == candidates, words
        assert set(candidates) <= set(found)

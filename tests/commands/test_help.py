"""Help of commands: from their settings, without torch, short and complete."""

import os
import re
import subprocess
import sys
from shutil import which

import pytest

from bertsmith.commands import flags
from bertsmith.commands.catalog import COMMANDS, help_page, import_settings

MAX_HELP_LINES = 50


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_short_and_points_to_the_rest(bertsmith, name):
    short = bertsmith(*name.split(), "--help")
    assert f"bertsmith {name}" in short
    assert len(short.splitlines()) <= MAX_HELP_LINES
    assert max(map(len, short.splitlines())) <= 80
    whole = bertsmith(*name.split(), "--help-all")
    for option in help_page(name).options:
        assert option.typed in whole
        assert option.help, f"{option.name} explains nothing"
        assert option.is_advanced or option.typed in short


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_the_flags_that_are_parsed(monkeypatch, capsys, name):
    """The parser's own help, which nobody sees, names the same flags."""
    shown = {each.name for each in help_page(name).options if not each.is_positional}
    monkeypatch.setattr(flags, "HELP_FLAGS", set())
    with pytest.raises(SystemExit):
        import_settings(name).parse(["--help"], name)
    parsed = set(re.findall(r"^[│ ] ?(--[a-z][a-z0-9-]+)", capsys.readouterr().out, re.M))
    assert shown - {"--recipe"} == parsed


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_needed_is_not_called_required_again(bertsmith, name):
    """Only what can do in its place is named: (required without --folds)."""
    for flag in ("--help", "--help-all"):
        assert "(required)" not in bertsmith(*name.split(), flag)


def test_what_is_always_needed_stands_among_the_needed(bertsmith):
    _, _, needed = bertsmith("distill", "pretraining", "--help").partition("\nneeded:\n")
    assert re.findall("^  (--[a-z]+)", needed.partition("\n\n")[0], re.M) == [
        "--corpus", "--out", "--teacher",
    ]  # fmt: skip


def test_help_needs_no_model(bertsmith):
    assert "bertsmith predict" in bertsmith("predict", "no/such/folder", "-h")


def test_help_of_a_recipe_has_its_defaults(bertsmith):
    out = bertsmith("pretrain", "--recipe", "quarter-hour", "--help-all")
    assert "(default: muon)" in out and "(default: adamw)" not in out


@pytest.mark.parametrize("words", [
    ("pretrain", "--help"), ("finetune", "classify", "--help-all"), ("predict", "-h"),
    ("pretrain", "--corpis"), ("recipes",),
], ids=" ".join)  # fmt: skip
def test_neither_help_nor_mistakes_load_torch(words):
    program = """
import sys
from bertsmith.cli import main
try:
    main(sys.argv[1:])
except SystemExit as stopped:
    assert stopped.code == 2
imported = sys.modules.keys() & {"torch", "numpy", "pydantic", "rich"}
assert not imported, imported
"""
    subprocess.run([sys.executable, "-c", program, *words], check=True, capture_output=True)


def test_help_fits_a_narrow_terminal(bertsmith, monkeypatch):
    monkeypatch.setenv("COLUMNS", "26")
    lines = bertsmith("corpus", "build", "--help").splitlines()
    assert len(lines) > 60
    assert [line for line in lines if len(line) > 26] == []


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
        ("bertsmith pretrain e", "elmo"),
        ("bertsmith pretrain gpt --corpus x --cor", "--corpus"),
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

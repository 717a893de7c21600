"""Texts and names of files cannot command a terminal."""

import io
import sys

import pytest

from bertsmith.system.escaping import CommandStream, escape_controls, make_console, unescaped


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("text", "shown"), [
    ("a\x1b[31mb", "a\\u001b[31mb"),
    ("\x9b2J", "\\u009b2J"),
    ("a\rb\x07\x7f", "a\\u000db\\u0007\\u007f"),
    ("exe.\u202etxt \u2067", "exe.\\u202etxt \\u2067"),
    ("a\tb\n中文 שלום é", "a\tb\n中文 שלום é"),
])  # fmt: skip
def test_controls_are_shown(text, shown):
    assert escape_controls(text) == shown


def test_a_message_shows_the_controls_in_a_name(refused):
    line = refused("predict", "no\x1b]0;title\x07such\u202e", "a film")
    assert "no\\u001b]0;title\\u0007such\\u202e" in line
    assert refused("predict\x9b").startswith("bertsmith: 'predict\\u009b' is not a command")


def test_results_are_escaped_on_a_terminal_alone(monkeypatch, capsys, tmp_path):
    from bertsmith.cli import main

    vocabulary = tmp_path / "v"
    words = ["tokenizer", "train", tmp_path / "text.txt", "--vocab-size", 40, "--out"]
    (tmp_path / "text.txt").write_text("a cat sat\x1b\n\non the mat\n\n" * 20)
    words = [str(word) for word in words]
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    main([*words, f"{vocabulary}\x1b1"])
    assert "\x1b" not in terminal.getvalue() and "\\u001b1" in terminal.getvalue()
    monkeypatch.setattr(sys, "stdout", piped := io.StringIO())
    main([*words, f"{vocabulary}\x1b2"])
    assert "\x1b2" in piped.getvalue()


def test_colours_of_ours_reach_the_terminal_and_those_of_texts_do_not():
    stream = CommandStream(Terminal())
    options = {"force_terminal": True, "color_system": "standard", "highlight": False}
    console = make_console(file=stream, **options)
    console.print("[bold]ours[/] \x1b[31mtheirs")
    assert unescaped(stream).getvalue() == "\x1b[1mours\x1b[0m \\u001b[31mtheirs\n"

"""The journal: whole lines come back, and a cut leaves the rest byte for byte."""

import pytest

from bertsmith.errors import CheckpointError
from bertsmith.training.journal import Journal, cut_journal, read_journal


def write(path, steps):
    with Journal(path) as journal:
        for step in steps:
            journal.write({"step": step, "loss": 1 / (step + 1), "learning_rate": 0.1})


def test_sync_puts_lines_on_the_disk_at_once(tmp_path):
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.write({"step": 1})
        assert path.read_text() == ""
        journal.sync()
        assert path.read_text() == '{"step": 1}\n'


@pytest.mark.parametrize("half_line", ["", '{"step": 6, "lo'])
def test_a_cut_is_the_file_that_was_never_longer(tmp_path, half_line):
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    write(whole, range(1, 4))
    write(cut, range(1, 6))
    with cut.open("a") as file:
        file.write(half_line)
    assert [entry["step"] for entry in cut_journal(cut, 3)] == [1, 2, 3]
    assert cut.read_bytes() == whole.read_bytes()
    write(cut, range(4, 6))
    assert [entry["loss"] for entry in read_journal(cut)[2:4]] == [1 / 4, 1 / 5]
    assert cut_journal(tmp_path / "absent.jsonl", 3) == []


@pytest.mark.parametrize("line", ["nonsense", "[1]", '{"loss": 1}'])
def test_a_line_that_is_none_is_named(tmp_path, line):
    path = tmp_path / "journal.jsonl"
    path.write_text(f'{{"step": 1}}\n{line}\n{{"step": 3}}\n')
    with pytest.raises(CheckpointError, match=r"journal\.jsonl:2: not a line of a journal"):
        read_journal(path)

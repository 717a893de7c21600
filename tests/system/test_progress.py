"""Progress of long work: shown where asked for, as a bar or as lines."""

import io

import pytest

from bertsmith.system import progress
from bertsmith.system.progress import (
    describe_times,
    only_bar,
    progress_bar,
    showing_progress,
    tracked,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that each look moves by a second."""
    now = iter(range(10_000))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(now)))


def test_lines_come_now_and_then_where_there_is_no_terminal(capsys, clock):
    with showing_progress():
        assert sum(tracked(range(40), "adding")) == 780
    lines = capsys.readouterr().err.splitlines()
    assert 3 <= len(lines) <= 9
    assert all(
        line.startswith("adding · ") and line.endswith((" spent", " to go")) for line in lines
    )


def test_nothing_is_shown_that_nobody_asked_for(capsys, clock):
    assert list(tracked(range(40), "adding")) == list(range(40))
    assert capsys.readouterr().err == ""
    with progress_bar("adding", 40, shown=True, interval=0) as advance:
        advance(40)
    assert "adding" in capsys.readouterr().err


def test_a_total_is_counted_only_for_a_bar_that_is_shown(capsys, clock, monkeypatch):
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0)
    counts = []

    def count():
        counts.append(2)
        return 2

    with only_bar("reading", count):
        assert counts == []
    with showing_progress(), only_bar("reading", count) as advance:
        assert counts == [2]
        advance(1)
        advance(1)
    assert "reading · 100 %" in capsys.readouterr().err


def test_bars_of_work_within_work_share_the_terminal(monkeypatch, clock):
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    progress.console.cache_clear()  # made when standard error was no terminal
    with showing_progress(), progress_bar("outer", 3) as outer:
        for _ in range(3):
            for _ in tracked(range(9), "inner"):
                outer(0)
            outer()
    shown = terminal.getvalue()
    assert "outer" in shown and "inner" in shown and "to go" in shown
    assert progress._SCREEN._progress is None
    progress.console.cache_clear()


def test_brackets_in_the_name_of_a_file_are_shown(monkeypatch, clock):
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    progress.console.cache_clear()
    with showing_progress(), progress_bar("films[dev].tsv", 3) as bar:
        for _ in range(3):
            bar()
    assert "films[dev].tsv" in terminal.getvalue()
    progress.console.cache_clear()


def test_the_time_to_go_is_shown_once_it_can_be_told():
    assert describe_times(0, 100, 4.0, 4.0) == "0:04 spent"
    assert describe_times(10, 100, 9.9, 9.9) == "10 % · 0:10 spent"
    assert describe_times(10, 100, 10.0, 10.0) == "10 % · 0:10 spent, 1:30 to go"
    assert describe_times(50, 100, 62.0, 60.0) == "50 % · 1:02 spent, 0:58 to go"
    assert describe_times(2_000, None, 62.0, 60.0) == "2,000 done, 1:02 spent"

"""A command line as it is typed: what it prints, and what it refuses in one line."""

import pytest

from bertsmith.cli import main


@pytest.fixture
def typed(capsys):
    """Run a command line; gives what it printed: `out` and `err`."""

    def run(*words):
        capsys.readouterr()
        main([str(word) for word in words])
        return capsys.readouterr()

    return run


@pytest.fixture
def bertsmith(typed):
    """Run a command line; gives its standard output."""
    return lambda *words: typed(*words).out


@pytest.fixture
def refused(capsys):
    """Run a command line that must fail; gives the one line of its message."""

    def run(*words):
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main([str(word) for word in words])
        captured = capsys.readouterr()
        assert (caught.value.code, captured.out) == (2, "")
        line = captured.err.splitlines()[-1]
        assert line.startswith("bertsmith")  # so the message has one line
        return line

    return run

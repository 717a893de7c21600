"""A command on several ranks, the processes that a launcher such as torchrun starts.

Rank 0 runs the command, and the others compute for rank 0.
"""

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

import torch

from bertsmith.errors import (
    BertsmithError,
    ConfigError,
    Interrupted,
    TrainingError,
    as_flags,
    option,
)
from bertsmith.system.cores import available_cores
from bertsmith.system.launch import Launch
from bertsmith.system.stop_signal import SIGNALS, exit_code
from bertsmith.training.workers.distributed import check_facts, code_facts, serve_rank
from bertsmith.training.workers.rank_group import RankGroup, join_ranks


def run_on_ranks(
    launch: Launch, work: Callable[[], None], line: Sequence[str], threads: int | None
) -> None:
    """Run `work` on rank 0, while the other ranks compute for rank 0; end all with its exit code.

    A rank that loses its connection to rank 0 ends with exit code 1.

    Args:
        line: the words of the command line on this rank.
        threads: number of processor threads that the command line asks for; None if it does not.
    """
    ranks = join_ranks(launch)
    if ranks.rank > 0:
        for number in SIGNALS:  # rank 0 handles them, and needs the others to save the run
            signal.signal(number, signal.SIG_IGN)
        if threads is not None:
            torch.set_num_threads(min(threads, available_cores()))
        try:
            ranks.gather((code_facts(), [*line]))  # for `_check_ranks` on rank 0
            code = serve_rank(ranks)
        except TrainingError as error:
            print(f"bertsmith: rank {ranks.rank}: {as_flags(error.message)}", file=sys.__stderr__)
            code = 1
        ranks.close()
        raise SystemExit(code)
    code = 1
    try:
        _check_ranks(ranks, line)
        work()
        code = 0
    except (Interrupted, KeyboardInterrupt):
        code = exit_code()
        raise
    except BrokenPipeError:  # the program that read the output has ended, which is not an error
        code = 0
        raise
    except BertsmithError:
        code = 2
        raise
    finally:
        with contextlib.suppress(TrainingError):  # the others may have ended
            ranks.broadcast(("end", code))  # `serve_rank` returns the code on the other ranks
            ranks.close()


def _check_ranks(ranks: RankGroup, line: Sequence[str]) -> None:
    """Refuse ranks that were started with other code, packages or options than this one.

    Raises:
        ConfigError: names the rank, and the first difference.
    """
    expected = code_facts()
    for rank, (facts, line_there) in enumerate(ranks.gather((expected, [*line]))):
        try:
            check_facts(expected, facts)
            check_line(line, line_there)
        except ConfigError as error:
            raise ConfigError(f"rank {rank} on {ranks.hosts[rank]}: {error.message}") from error


def check_line(line: Sequence[str], line_there: Sequence[str]) -> None:
    """Check that another rank, which was started with `line_there`, has the options of this one.

    Raises:
        ConfigError: names the first difference. Threads and the folders of files may differ.
    """
    expected, words = [*_comparable(line)], [*_comparable(line_there)]
    for index, (word, other) in enumerate(zip_longest(expected, words)):
        if word != other:
            # If the words that differ are values, the message shows the option before them, too.
            start = index - 1 if index and expected[index - 1].startswith("-") else index
            raise ConfigError(
                f"was started with {_quoted(words[start : index + 1])}, and rank 0 with "
                f"{_quoted(expected[start : index + 1])}. Give all ranks the same line; only "
                f"{option('threads')} and the folders in which files lie may differ."
            )


def _quoted(words: Sequence[str]) -> str:
    return f"'{' '.join(words)}'" if words else "nothing there"


def _comparable(line: Sequence[str]) -> Iterator[str]:
    """Yield the words of a line, without those that may differ between machines."""
    words = iter(line)
    for word in words:
        if word == "--threads":
            next(words, None)
        elif not word.startswith("--threads="):
            is_option = word.startswith("-")
            name, equals, value = word.partition("=") if is_option else ("", "", word)
            # Only the last part of a path, since folders may differ.
            yield name + equals + value.rstrip("/").rpartition("/")[2]

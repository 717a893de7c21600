"""The process of a contender: it reads commands on stdin, and writes answers on stdout, as JSON.

A contender prepares itself, says that it is ready, and waits. At the command "go N" it does N
steps, answers how long they took, and waits again. So several contenders can be warm at once and
take turns, whatever loop they run: a training loop calls the gate in a callback at the end of each
step. The process ends when its pipe closes.

    python -m benchmarks.speed.protocol contend MODULE:FUNCTION '{"option": 1}'
    python -m benchmarks.speed.protocol call    MODULE:FUNCTION '{"option": 1}'

`contend` calls the function with a gate, `call` without one and answers what it returns.
"""

import contextlib
import importlib
import json
import os
import resource
import statistics
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO


@dataclass(frozen=True)
class Burst:
    """The steps of a contender's turn.

    `amount` is the number of real tokens, bytes or floating-point operations of the steps,
    whichever the contest counts. `cells` is the number of tokens with padding; None if it is not
    known. `median_seconds` is that of a single step. `peak_megabytes` is the result of the function
    of this name at the end of the turn.
    """

    steps: int
    seconds: float
    median_seconds: float
    amount: float
    cells: float | None
    peak_megabytes: float


class Gate:
    """The place at which a contender waits for its turn; it also counts the steps of the turn."""

    def __init__(self, commands: TextIO, answers: TextIO) -> None:
        self._commands = commands
        self._answers = answers

    def wait(self, **facts: Any) -> None:
        """Say that everything is ready, with facts for the report, and wait for the first turn."""
        self._answer({"ready": facts})
        self._stop()

    def step(self, amount: float, cells: float | None = None) -> None:
        """Count a step; after the last step of the turn, wait for the next turn."""
        now = time.perf_counter()
        self._times.append(now)
        self._amount += amount
        self._cells = None if cells is None else (self._cells or 0) + cells
        self._left -= 1
        if self._left == 0:
            self._answer({"burst": asdict(self._burst())})
            self._stop()

    def _burst(self) -> Burst:
        pauses = [end - start for start, end in zip(self._times, self._times[1:], strict=False)]
        return Burst(
            steps=len(pauses),
            seconds=self._times[-1] - self._times[0],
            median_seconds=statistics.median(pauses),
            amount=self._amount,
            cells=self._cells,
            peak_megabytes=peak_megabytes(),
        )

    def _stop(self) -> None:
        words = self._commands.readline().split()
        if not words:
            # A training loop would answer an exception with clean-up, and threads with waiting.
            os._exit(0)
        assert words[0] == "go", words
        self._left = int(words[1])
        self._amount, self._cells = 0.0, None
        self._times = [time.perf_counter()]

    def _answer(self, answer: dict[str, Any]) -> None:
        print(json.dumps(answer), file=self._answers, flush=True)


def peak_megabytes() -> float:
    """Return the peak memory of this process and, on Linux, of its workers.

    Memory that they share is counted once.
    """
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if sys.platform == "darwin":
        return peak / 2**20
    workers = "".join(path.read_text() for path in Path("/proc/self/task").glob("*/children"))
    return (peak + sum(map(_own_kilobytes, workers.split()))) / 2**10


def _own_kilobytes(process: str) -> int:
    """Return the peak of a worker without shared memory."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        facts = {name: value for name, _, value in (line.partition(":") for line in lines)}
        peak, *shared = (int(facts[name].split()[0]) for name in ("VmHWM", "RssFile", "RssShmem"))
        return max(0, peak - sum(shared))
    return 0


def main() -> None:
    """Run a contender, or call a function once."""
    mode, target, options = sys.argv[1:]
    # Libraries print as they like; what goes to stdout must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        module, _, name = target.partition(":")
        function = getattr(importlib.import_module(module), name)
        arguments = json.loads(options)
        if mode == "contend":
            function(Gate(sys.stdin, answers), **arguments)
            result: Any = None
        else:
            result = function(**arguments)
    except Exception as error:
        traceback.print_exc()
        problem = f"{type(error).__name__}: {str(error).strip() or 'no message'}"
        print(json.dumps({"error": problem}), file=answers, flush=True)
        raise SystemExit(1) from None
    print(json.dumps({"result": result}), file=answers, flush=True)


if __name__ == "__main__":
    main()

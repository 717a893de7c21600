"""Contests: several programs do the same work in turns, and the time of each turn is measured.

Each contender is a process of its own. So its peak memory is its own, and no contender profits from
options that another one has set. All are started and warmed up before the first turn counts. Who
goes first changes from round to round. A contender that fails is left out, with its error, and the
others go on.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from benchmarks.common import ROOT
from benchmarks.speed.plan import Plan
from benchmarks.speed.protocol import Burst

PREPARE_SECONDS = 600.0
STEP_SECONDS = 300.0
"""A step that takes longer is given up, and its contender with it."""
SHOWN_LOG_LINES = 5


class ChildError(Exception):
    """A child process ended, answered with an error, or took too long."""


@dataclass(frozen=True)
class Contender:
    """A program that takes part: a function that is called with a gate and the options.

    The function calls the gate (`protocol.Gate`) after each step, and waits there for its turns.
    """

    name: str
    target: str
    """The function, as `MODULE:FUNCTION`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    """Length of its turns in seconds; None takes that of the plan."""
    problem: str | None = None
    """The reason why it cannot be started, if there is one."""


@dataclass(frozen=True)
class Claim:
    """A ratio to report: the fastest of `ours` over the fastest of `peers`."""

    what: str
    ours: tuple[str, ...]
    peers: tuple[str, ...]
    is_shown: bool = False
    """Whether the README shows the ratio, too."""


@dataclass(frozen=True)
class Contest:
    """Contenders for the same work.

    `unit` is "tokens/s", "MB/s" or "ms". `steps` is the number of steps of a turn; if it is None,
    the number is chosen so that a turn takes the time of the plan.
    """

    title: str
    unit: str
    contenders: Sequence[Contender]
    claims: Sequence[Claim] = ()
    notes: Sequence[str] = ()
    steps: int | None = None
    threads: int | None = None
    """Processor threads of each contender; None takes the number of the plan."""


@dataclass
class Result:
    """The result of a contender: the measurements of its turns, or an error."""

    facts: dict[str, Any] = field(default_factory=dict)
    bursts: list[Burst] = field(default_factory=list)
    error: str | None = None


class Child:
    """A contender's process; a context manager that ends it."""

    def __init__(self, contender: Contender, plan: Plan, threads: int) -> None:
        words = ("contend", contender.target, json.dumps(contender.options, default=str))
        self._log = plan.work / "logs" / f"{contender.name.replace(' ', '-')}.log"
        self._process = start(words, self._log, threads)
        self.facts: dict[str, Any] = {}

    def prepare(self) -> None:
        """Wait until it is ready."""
        self.facts = read_answer(self._process, self._log, PREPARE_SECONDS)["ready"]

    def go(self, steps: int) -> Burst:
        """Let it do some steps."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # its last answer says why it is gone
            self._process.stdin.write(f"go {steps}\n")
            self._process.stdin.flush()
        limit = STEP_SECONDS * (1 + steps / 10)
        return Burst(**read_answer(self._process, self._log, limit)["burst"])

    def warm_up(self, seconds: float) -> int:
        """Do some steps, and return the number of steps that take about `seconds`."""
        self.go(1)  # not timed: the first step prepares much, and takes as long as many others
        steps = 1
        while True:
            burst = self.go(steps)
            wanted = round(steps * seconds / max(burst.seconds, 1e-6))
            if burst.seconds >= seconds / 2:
                return max(1, wanted)
            steps = max(steps + 1, min(wanted, 10 * steps))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the pipe of its commands, at which it ends; kill it if it is still busy."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def run(contest: Contest, plan: Plan) -> dict[str, Any]:
    """Run a contest; return its description and its results as plain JSON values."""
    say(f"{contest.title}: {', '.join(contender.name for contender in contest.contenders)}")
    results = {contender.name: Result(error=contender.problem) for contender in contest.contenders}
    threads = contest.threads or plan.threads
    load_before = os.getloadavg()[0]
    with contextlib.ExitStack() as stack:
        children: dict[str, Child] = {}
        steps: dict[str, int] = {}
        for contender in contest.contenders:
            with failures(results[contender.name], contender.name):
                if contender.problem is not None:
                    continue
                child = stack.enter_context(Child(contender, plan, threads))
                child.prepare()
                results[contender.name].facts = child.facts
                steps[contender.name] = contest.steps or child.warm_up(
                    contender.seconds or plan.seconds
                )
                children[contender.name] = child
        for number in range(plan.rounds):
            say(f"  round {number + 1} of {plan.rounds}")
            for name in list(children) if number % 2 == 0 else list(children)[::-1]:
                with failures(results[name], name):
                    results[name].bursts.append(children[name].go(steps[name]))
                if results[name].error:
                    del children[name]
    return {
        "title": contest.title,
        "unit": contest.unit,
        "threads": threads,
        "load": [load_before, os.getloadavg()[0]],
        "notes": list(contest.notes),
        "claims": [asdict(claim) for claim in contest.claims],
        "contenders": {name: asdict(result) for name, result in results.items()},
    }


@contextlib.contextmanager
def failures(result: Result, name: str) -> Iterator[None]:
    """Turn a failure into the contender's error."""
    try:
        yield
    except (ChildError, OSError) as error:
        result.error = str(error)
        say(f"  {name} failed: {error}")


def call(target: str, plan: Plan, /, **options: Any) -> Any:
    """Call a function in a process of its own.

    Raises:
        ChildError: it raised, or took too long.
    """
    log = plan.work / "logs" / f"{target.rpartition('.')[2].replace(':', '-')}.log"
    words = ("call", target, json.dumps(options, default=str))
    process = start(words, log, plan.threads)
    with process:
        return read_answer(process, log, PREPARE_SECONDS + 120 * plan.minutes)["result"]


def start(words: Sequence[str], log: Path, threads: int) -> subprocess.Popen[str]:
    """Start a child process with pipes; its messages go to a log file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "benchmarks.speed.protocol", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            cwd=ROOT,
            env={**os.environ, **environment(threads)},
        )


def environment(threads: int) -> dict[str, str]:
    """Return variables that set the number of threads of every library and forbid downloads."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    return {
        **dict.fromkeys(names, str(threads)),
        "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
    }


def read_answer(process: subprocess.Popen[str], log: Path, seconds: float) -> dict[str, Any]:
    """Read the child's next line.

    Raises:
        ChildError: it is an error, or there is none within the time.
    """
    assert process.stdout is not None
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    line = process.stdout.readline()
    took_too_long = not timer.is_alive()
    timer.cancel()
    if took_too_long:
        raise ChildError(f"no answer within {seconds:.0f} s")
    if not line:
        last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-SHOWN_LOG_LINES:]
        raise ChildError(f"ended with status {process.wait()}: {' / '.join(last)}")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise ChildError(f"{answer['error']} (all in {log})")
    return answer


def say(line: str) -> None:
    """Show how far the run is."""
    print(line, file=sys.stderr, flush=True)

"""Does `bertsmith plan` tell the truth? Its forecast of short runs beside the runs themselves.

    python -m benchmarks.plan                     # a quarter of an hour on two cores
    python -m benchmarks.plan --sizes tiny --lengths 64 --seconds 20 --out /tmp/plan.md

For every size and row length: the forecast, then `bertsmith pretrain` with the same options. A step
takes the median of its steps' times; memory is the most that all its processes held at a time, with
what they share counted once, looked at five times a second. Both follow each other on purpose: what
else the machine does is much the same then.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch

from bertsmith.system.compute import Compute
from bertsmith.system.hardware import compute_settings
from bertsmith.system.matrix_products import measured_products
from bertsmith.system.measurements import processor_name
from bertsmith.system.memory import resident_bytes

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks" / "results" / "plan.md"
SIZES, LENGTHS = ("tiny", "mini", "small"), (64, 128, 512)
MAX_TIME_ERROR, MAX_MEMORY_ERROR = 0.15, 0.20
VOCAB_SIZE = 8000
LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class Outcome:
    """A forecast and what came; seconds of a step, and bytes."""

    size: str
    length: int
    planned_step: float
    real_step: float
    planned_bytes: float
    estimated_bytes: float
    real_bytes: float
    planned_steps: float
    real_steps: int

    @property
    def time_error(self) -> float:
        """How much longer a step was planned to take than it took, as a share."""
        return self.planned_step / self.real_step - 1

    @property
    def memory_error(self) -> float:
        """The same for memory."""
        return self.planned_bytes / self.real_bytes - 1


def main() -> None:
    """Plan, run, compare, write."""
    args = parse()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="plan-", dir=args.work) as work:
        corpus = args.corpus or build_corpus(args.data, Path(work))
        for size in args.sizes:
            for length in args.lengths:
                outcomes.append(compare(size, length, corpus, Path(work), args))
                print(json.dumps(asdict(outcomes[-1])), flush=True)
                args.out.parent.mkdir(parents=True, exist_ok=True)
                args.out.write_text(page(outcomes, args), encoding="utf-8")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=SIZES)
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS)
    parser.add_argument("--seconds", type=float, default=75.0, help="of each run")
    parser.add_argument("--measure", type=float, default=5.0, help="seconds that a plan measures")
    parser.add_argument("--threads", type=int, help="as many as there are cores if not given")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--corpus", type=Path, help="a corpus that is there already")
    parser.add_argument("--work", type=Path, help="where runs are written; removed at the end")
    parser.add_argument("--out", type=Path, default=RESULT)
    return parser.parse_args()


def build_corpus(data: Path, work: Path) -> Path:
    """A small corpus of general English."""
    text, tokenizer, corpus = data / "enwiki" / "small.txt", work / "tokenizer", work / "corpus"
    bertsmith("tokenizer", "train", text, "--vocab-size", VOCAB_SIZE, "--out", tokenizer)
    bertsmith("corpus", "build", text, "--tokenizer", tokenizer, "--out", corpus)
    return corpus


def command(*words: object) -> list[str]:
    """A call of the command line in this interpreter."""
    return [sys.executable, "-m", "bertsmith", *map(str, words)]


def bertsmith(*words: object) -> str:
    """What a command prints."""
    done = subprocess.run(command(*words), check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    return done.stdout


def compare(size: str, length: int, corpus: Path, work: Path, args: argparse.Namespace) -> Outcome:
    """One size with rows of one length."""
    options = ["--preset", size, "--max-length", length, "--minutes", args.seconds / 60,
               "--eval-rows", 128, "--corpus", corpus, "--json"]  # fmt: skip
    if args.threads:
        options += ["--threads", args.threads]
    planned = json.loads(bertsmith("plan", *options, "--measure-seconds", args.measure))
    out = work / f"{size}-{length}"
    real_bytes = run_and_watch(command("pretrain", *options, "--out", out, "--overwrite"))
    steps = step_seconds(out / "journal.jsonl")
    return Outcome(
        size=size,
        length=length,
        planned_step=planned["step"]["seconds"],
        real_step=statistics.median(steps),
        planned_bytes=planned["memory"]["peak"],
        estimated_bytes=planned["memory"]["estimate"],
        real_bytes=real_bytes,
        planned_steps=planned["run"]["steps"],
        real_steps=len(steps),
    )


def step_seconds(journal: Path) -> list[float]:
    """What each step of a run took."""
    entries = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    return [
        entry["real_tokens"] / entry["tokens_per_second"]
        for entry in entries
        if "tokens_per_second" in entry
    ]


def run_and_watch(words: Sequence[str]) -> float:
    """Run a command; the most memory that it and all it started held at a time."""
    peak = 0
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, cwd=ROOT)
    try:
        while process.poll() is None:
            peak = max(peak, resident_bytes(family(process.pid)) or 0)
            time.sleep(LOOK_SECONDS)
    finally:
        process.kill()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words)
    return peak


def family(process_id: int | str) -> list[int]:
    """A process and all that it and they have started."""
    found = [int(process_id)]
    for children in Path(f"/proc/{process_id}/task").glob("*/children"):
        try:
            for child in children.read_text().split():
                found += family(child)
        except OSError:  # it has ended meanwhile
            continue
    return found


def page(outcomes: Sequence[Outcome], args: argparse.Namespace) -> str:
    """The result as Markdown."""
    text = args.corpus or f"`enwiki/small.txt` with {VOCAB_SIZE:,} word pieces"
    rows = [line(outcome) for outcome in outcomes]
    worst_time = max(abs(outcome.time_error) for outcome in outcomes)
    worst_memory = max(abs(outcome.memory_error) for outcome in outcomes)
    return "\n".join(
        [
            "# What `bertsmith plan` foretold, and what came",
            "",
            f"`python -m benchmarks.plan`, {date.today().isoformat()}: {machine(args.threads)}. "
            f"Runs of {args.seconds:g} s on {text} and otherwise default settings.",
            "",
            "| size | rows of | step planned | step real | error | memory planned | without a "
            "trial | memory real | error | steps planned | steps real |",
            "|---|---|---|---|---|---|---|---|---|---|---|",
            *rows,
            "",
            f"Farthest off: time {worst_time:.1%} (allowed {MAX_TIME_ERROR:.0%}), memory "
            f"{worst_memory:.1%} (allowed {MAX_MEMORY_ERROR:.0%}).",
            "",
        ]
    )


def line(outcome: Outcome) -> str:
    """A row of the table."""
    cells: list[Any] = [
        outcome.size,
        outcome.length,
        f"{1e3 * outcome.planned_step:,.1f} ms",
        f"{1e3 * outcome.real_step:,.1f} ms",
        f"{outcome.time_error:+.1%}",
        f"{outcome.planned_bytes / 1e6:,.0f} MB",
        f"{outcome.estimated_bytes / 1e6:,.0f} MB",
        f"{outcome.real_bytes / 1e6:,.0f} MB",
        f"{outcome.memory_error:+.1%}",
        f"{outcome.planned_steps:,.0f}",
        f"{outcome.real_steps:,}",
    ]
    return f"| {' | '.join(map(str, cells))} |"


def machine(threads: int | None) -> str:
    """Processor, threads and versions."""
    with compute_settings(Compute(device="cpu", threads=threads)):
        speed = measured_products().value.bf16_gflops
    return (
        f"{processor_name()}, {threads or 'all'} threads, bf16 products at {speed:,.0f} GFLOP/s, "
        f"torch {torch.__version__}, Python {platform.python_version()}"
    )


if __name__ == "__main__":
    main()

"""Does `bertsmith plan` tell the truth? Its forecast of short runs beside the runs themselves.

    python -m benchmarks.plan                     # a quarter of an hour on two cores
    python -m benchmarks.plan --sizes tiny --lengths 64 --seconds 20 --out /tmp/plan.json

For every size and row length: the forecast, then `bertsmith pretrain` with the same options. A step
takes the median of its steps' times; memory is the most that all its processes held at a time, with
what they share counted once, looked at five times a second. Both follow each other on purpose: what
else the machine does is much the same then.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.common import DATA, RESULTS, ROOT, bertsmith, build_corpus, machine, save, table
from bertsmith.system.memory import resident_bytes
from bertsmith.training.journal import read_journal

SIZES, LENGTHS = ("tiny", "mini", "small"), (64, 128, 512)
MAX_TIME_ERROR, MAX_MEMORY_ERROR = 0.15, 0.20
VOCAB_SIZE = 8000
LOOK_SECONDS = 0.2
HEADING = ("size, rows of", "step planned", "step real", "error", "memory planned",
           "without a trial", "memory real", "error", "steps planned", "steps real")  # fmt: skip


def main() -> None:
    """Plan, run, compare, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=SIZES)
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS)
    parser.add_argument("--seconds", type=float, default=75.0, help="of each run")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=RESULTS / "plan.json")
    args = parser.parse_args()
    found: dict[str, Any] = {"seconds": args.seconds, "machine": machine(), "runs": {}}
    with tempfile.TemporaryDirectory(prefix="plan-") as folder:
        work = Path(folder)
        corpus = build_corpus(args.data / "enwiki" / "small.txt", VOCAB_SIZE, work)
        for size, length in product(args.sizes, args.lengths):
            options = ["--preset", size, "--max-length", length, "--minutes", args.seconds / 60,
                       "--eval-rows", 128, "--corpus", corpus]  # fmt: skip
            planned, out = bertsmith("plan", *options), work / f"{size}-{length}"
            peak = run_and_watch("pretrain", *options, "--out", out)
            steps = [
                entry["real_tokens"] / entry["tokens_per_second"]
                for entry in read_journal(out / "journal.jsonl")
                if "tokens_per_second" in entry
            ]
            found["runs"][f"{size}, {length}"] = {
                "planned": {name: planned[name] for name in ("step", "memory", "run")},
                "step": statistics.median(steps),
                "steps": len(steps),
                "memory": peak,
            }
            save(found, args.out, page)
    print(page(found))


def run_and_watch(*words: object) -> float:
    """Run a command; return the most memory that it and all it started held at a time."""
    peak = 0
    command = [sys.executable, "-m", "bertsmith", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT)
    try:
        while process.poll() is None:
            peak = max(peak, resident_bytes(family(process.pid)) or 0)
            time.sleep(LOOK_SECONDS)
    finally:
        process.kill()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return peak


def family(process_id: int | str) -> list[int]:
    """List a process and all that it and they have started."""
    found = [int(process_id)]
    for children in Path(f"/proc/{process_id}/task").glob("*/children"):
        try:
            for child in children.read_text().split():
                found += family(child)
        except OSError:  # it has ended meanwhile
            continue
    return found


def page(found: Mapping[str, Any]) -> str:
    """Format the result as Markdown."""
    runs = found["runs"]
    errors = {name: errors_of(run) for name, run in runs.items()}
    worst = [max(map(abs, column)) for column in zip(*errors.values(), strict=True)]
    lines = [
        "# What `bertsmith plan` foretold, and what came",
        "",
        f"`python -m benchmarks.plan`, {time.strftime('%Y-%m-%d')}: {found['machine']}. Runs of "
        f"{found['seconds']:g} s on `enwiki/small.txt` with {VOCAB_SIZE:,} word pieces and "
        "otherwise default settings.",
        "",
        *table(HEADING, [(name, *cells(run, *errors[name])) for name, run in runs.items()]),
        "",
        f"Farthest off: time {worst[0]:.1%} (allowed {MAX_TIME_ERROR:.0%}), memory "
        f"{worst[1]:.1%} (allowed {MAX_MEMORY_ERROR:.0%}).",
        "",
    ]
    return "\n".join(lines)


def errors_of(run: Mapping[str, Any]) -> tuple[float, float]:
    """Compute how much more time and memory were planned than taken, as shares."""
    planned = run["planned"]
    time_error = planned["step"]["seconds"] / run["step"] - 1
    return time_error, planned["memory"]["peak"] / run["memory"] - 1


def cells(run: Mapping[str, Any], time_error: float, memory_error: float) -> Sequence[str]:
    """Format a forecast and what came."""
    step, memory, whole = (run["planned"][name] for name in ("step", "memory", "run"))
    return (
        *(f"{1e3 * seconds:,.1f} ms" for seconds in (step["seconds"], run["step"])),
        f"{time_error:+.1%}",
        *(f"{x / 1e6:,.0f} MB" for x in (memory["peak"], memory["estimate"], run["memory"])),
        f"{memory_error:+.1%}",
        f"{whole['steps']:,.0f}",
        f"{run['steps']:,}",
    )


if __name__ == "__main__":
    main()

"""Measure bertsmith against its peers in one run, and write the table.

A part, such as encoding, is a module of this folder: its `checks` compare what both sides compute,
and its `contests` are what is timed. First parity is checked: losses and gradients, vectors and
token ids equal the peers' in fp32, or the run stops. Then one part after the other is measured.
Results are written after every contest, so a run that is stopped keeps what it has, and parts can
be measured again by their names.

    make bench            # everything but time_to_quality, half an hour on two cores
    make bench-quick      # fewer sizes, rounds and sentences: five minutes, 20 without bf16
    make bench-quality    # time_to_quality
    python -m benchmarks.speed encoding latency     # these parts again, into today's result
"""

import argparse
import importlib
import os
import shutil
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.common import DATA, RESULTS, ROOT, load, processor, save, versions
from benchmarks.speed import readme, time_to_quality
from benchmarks.speed.contest import ChildError, run, say
from benchmarks.speed.plan import Plan
from benchmarks.speed.report import page

PARTS = ("tokenizing", "latency", "encoding", "finetuning", "pretraining")
QUALITY = "time_to_quality"
TOLERANCE = 1e-5
"""Largest difference for which both sides count as equal."""
PEERS = ("torch", "transformers", "tokenizers", "accelerate", "sentence-transformers",
         "onnxruntime", "onnx", "bertsmith")  # fmt: skip


def main() -> None:
    """Check, measure, write."""
    args = parse()
    if missing := [name for name in PEERS if not find_spec(name.replace("-", "_"))]:
        raise SystemExit(f"Not installed: {', '.join(missing)}. Run: pip install -e .[bench]")
    work, data = args.work.resolve() / "speed", args.data.resolve()
    plan = Plan(data, work, args.threads, args.quick, args.minutes)
    folder = args.results or (args.work if plan.is_quick else RESULTS)
    # What an earlier run prepared was prepared by other code.
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    suffix = "-quick" if plan.is_quick else ""
    target = folder / f"speed-{time.strftime('%Y-%m-%d')}{suffix}.json"
    results = begin(target, args)
    parts = [importlib.import_module(f"benchmarks.speed.{name}")
             for name in args.parts if name != QUALITY]  # fmt: skip
    for part in parts:
        check(part, plan, results["parity"])
    for part in parts:
        measure(part, plan, results, target)
    if QUALITY in args.parts:
        for text, result in time_to_quality.measure(plan):
            results.setdefault("quality", {})[text] = result | {"date": time.strftime("%Y-%m-%d")}
            save(results, target, page)
    if not plan.is_quick and set(PARTS) <= set(args.parts):
        readme.write_all(target)
    print(target.with_suffix(".md"))


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.speed", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add, all_parts = parser.add_argument, (*PARTS, QUALITY)
    parts_help = f"of {', '.join(all_parts)}; all but the last if not given"
    add("parts", nargs="*", default=PARTS, metavar="PART", help=parts_help)
    add("--quick", action="store_true", help="fewer sizes, rounds and sentences")
    add("--data", type=Path, default=DATA, help="folder with enwiki, glue, vocabs")
    work_help = "what is prepared and logged goes to 'speed' in this folder, which is emptied first"
    add("--work", type=Path, default=ROOT / "runs", help=work_help)
    results_help = "benchmarks/results if not given, the work folder for a quick run"
    add("--results", type=Path, help=results_help)
    add("--threads", type=int, default=len(os.sched_getaffinity(0)))
    add("--minutes", type=float, default=10.0, help=f"how long each side of {QUALITY} trains")
    args = parser.parse_args()
    if unknown := sorted(set(args.parts) - set(all_parts)):
        parser.error(f"found {', '.join(unknown)}; allowed are {', '.join(all_parts)}.")
    return args


def begin(target: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Return today's result so far, or a new one, with a description of this run."""
    words = [*args.parts] if list(args.parts) != list(PARTS) else []
    return {"parity": {}, "contests": {}, **load(target)} | {
        "date": time.strftime("%Y-%m-%d"),
        "command": " ".join(["python -m benchmarks.speed", *words, *["--quick"] * args.quick]),
        "machine": f"{processor()}, {args.threads} of {os.cpu_count()} cores",
        "versions": versions(*PEERS),
    }


def check(part: Any, plan: Plan, parity: dict[str, Any]) -> None:
    """Compare a part's results in fp32 with the peer's; stop if they differ."""
    try:
        for name, differences in part.checks(plan):
            say(f"parity of {name}: {differences}")
            parity[name] = differences
            if not all(value <= TOLERANCE for value in differences.values()):
                raise SystemExit(
                    f"{name}: found {differences}; allowed is {TOLERANCE:g}. What computes "
                    "something else is not compared. Nothing was measured."
                )
    except ChildError as error:
        raise SystemExit(f"parity of {part.__name__} cannot be checked: {error}") from None


def measure(part: Any, plan: Plan, results: dict[str, Any], target: Path) -> None:
    """Run a part's contests; add each to the results and write them as soon as it is over."""
    try:
        for contest in part.contests(plan):
            result = run(contest, plan)
            results["contests"][contest.title] = result | {"date": time.strftime("%Y-%m-%d %H:%M")}
            save(results, target, page)
    except ChildError as error:
        say(f"{part.__name__} cannot be prepared: {error}")


if __name__ == "__main__":
    main()

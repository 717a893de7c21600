"""Measure bertsmith against its peers in one run, and write the table.

First parity is checked: losses and gradients, vectors and token ids equal the peers' in fp32, or
the run stops. Then one part after the other is measured. Results are written after every contest,
so a run that is stopped keeps what it has, and parts can be measured again by their names.

    make bench            # everything but time_to_quality, half an hour on two cores
    make bench-quick      # fewer sizes, rounds and sentences, five minutes
    make bench-quality    # time_to_quality
    python -m benchmarks.speed encoding latency     # these parts again, into today's result
"""

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.speed import readme, time_to_quality
from benchmarks.speed.contest import ChildError, run, say
from benchmarks.speed.plan import DATA, ROOT, Plan
from benchmarks.speed.report import page

PARTS = ("tokenizing", "latency", "encoding", "finetuning", "pretraining")
QUALITY = "time_to_quality"
TOLERANCE = 1e-5
PEERS = ("torch", "transformers", "tokenizers", "accelerate", "sentence-transformers",
         "onnxruntime", "onnx", "bertsmith")  # fmt: skip


def main() -> None:
    """Check, measure, write."""
    args = parse()
    check_peers()
    work = args.work.resolve() / "speed"
    texts = tuple(args.texts)
    plan = Plan(args.data.resolve(), work, args.threads, args.quick, args.minutes, texts)
    results = args.results or (args.work if plan.is_quick else ROOT / "benchmarks" / "results")
    results.mkdir(parents=True, exist_ok=True)
    clear(plan.work)
    suffix = "-quick" if plan.is_quick else ""
    target = results / f"speed-{time.strftime('%Y-%m-%d')}{suffix}.json"
    found = begin(target, args)
    parts = [importlib.import_module(f"benchmarks.speed.{name}")
             for name in args.parts if name != QUALITY]  # fmt: skip
    for part in parts:
        check(part, plan, found["parity"])
    for part in parts:
        measure(part, plan, found, target)
    if QUALITY in args.parts:
        for text, result in time_to_quality.measure(plan):
            found.setdefault("quality", {})[text] = result | {"date": time.strftime("%Y-%m-%d")}
            save(found, target)
    if not plan.is_quick and set(PARTS) <= set(args.parts):
        readme.write(readme.README, target)
    print(target.with_suffix(".md"))


def clear(work: Path) -> None:
    """Remove what an earlier run prepared, since the code that prepared it may have changed."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)


def parse() -> argparse.Namespace:
    """The command line."""
    all_parts = (*PARTS, QUALITY)
    parser = argparse.ArgumentParser("python -m benchmarks.speed", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parts_help = f"of {', '.join(all_parts)}; all but the last if not given"
    parser.add_argument("parts", nargs="*", default=PARTS, metavar="PART", help=parts_help)
    parser.add_argument("--quick", action="store_true", help="fewer sizes, rounds and sentences")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with enwiki, glue, vocabs")
    work_help = "what is prepared and logged goes to 'speed' in this folder, which is emptied first"
    parser.add_argument("--work", type=Path, default=ROOT / "runs", help=work_help)
    results_help = "benchmarks/results if not given, the work folder for a quick run"
    parser.add_argument("--results", type=Path, help=results_help)
    parser.add_argument("--threads", type=int, default=available_cores())
    minutes_help = f"how long each side of {QUALITY} trains"
    parser.add_argument("--minutes", type=float, default=10.0, help=minutes_help)
    known = [*time_to_quality.TEXTS]
    texts_help = f"what {QUALITY} trains on; all if not given"
    parser.add_argument("--texts", nargs="+", choices=known, default=known, help=texts_help)
    args = parser.parse_args()
    if unknown := sorted(set(args.parts) - set(all_parts)):
        parser.error(f"found {', '.join(unknown)}; allowed are {', '.join(all_parts)}.")
    return args


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_peers() -> None:
    """Stop where a peer is not installed."""
    missing = [name for name in PEERS if importlib.util.find_spec(name.replace("-", "_")) is None]
    if missing:
        raise SystemExit(f"Not installed: {', '.join(missing)}. Run: pip install -e .[bench]")


def begin(target: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Today's result so far, or a new one, with what this run is."""
    found: dict[str, Any] = {"parity": {}, "contests": {}}
    if target.exists():
        found = json.loads(target.read_text(encoding="utf-8"))
    words = [*args.parts] if list(args.parts) != list(PARTS) else []
    return found | {
        "date": time.strftime("%Y-%m-%d"),
        "command": " ".join(["python -m benchmarks.speed", *words, *["--quick"] * args.quick]),
        "machine": f"{processor()}, {args.threads} of {os.cpu_count()} cores",
        "versions": {"Python": platform.python_version(),
                     **{name: importlib.metadata.version(name) for name in PEERS}},
    }  # fmt: skip


def processor() -> str:
    """The processor's name, and whether it has what bf16 and int8 are fast with."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    facts = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    facts = {name.strip(): value.strip() for name, value in facts.items()}
    wanted = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16")
    flags = [name for name in wanted if name in facts.get("flags", "").split()]
    return f"{facts.get('model name', platform.machine())} ({', '.join(flags)})"


def check(part: Any, plan: Plan, parity: dict[str, Any]) -> None:
    """Hold a part's figures in fp32 against the peer's; stop where they differ."""
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


def measure(part: Any, plan: Plan, found: dict[str, Any], target: Path) -> None:
    """Hold a part's contests and write each as soon as it is over."""
    try:
        for contest in part.contests(plan):
            result = run(contest, plan)
            found["contests"][contest.title] = result | {"date": time.strftime("%Y-%m-%d %H:%M")}
            save(found, target)
    except ChildError as error:
        say(f"{part.__name__} cannot be prepared: {error}")


def save(found: Mapping[str, Any], target: Path) -> None:
    """Write the result and its page."""
    target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    target.with_suffix(".md").write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()

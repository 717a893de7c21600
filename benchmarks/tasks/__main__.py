"""Fine-tune every task of the paper with bertsmith and with transformers' Trainer, and compare.

Both sides start from the same published checkpoint (all-MiniLM-L6-v2, 6 layers, 384 wide) and take
the same examples and hyper-parameters for the same number of epochs. Runs alternate, each in a
process of its own, and who goes first changes from seed to seed. The score is that of the last
weights on the development set. Seconds are those of the whole job from reading the files to the
score, imports left out. bertsmith also scores after every epoch, which the Trainer is spared.

    pip install -e .[bench]
    python -m benchmarks.tasks                      # everything: hours on two cores
    python -m benchmarks.tasks sst2 rte --seeds 3   # some; what is measured already is kept

Results are written after each run; a run that stands in today's result is not repeated.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import (
    DATA,
    RESULTS,
    ROOT,
    load,
    machine,
    published_model,
    save,
    spread,
    table,
)  # fmt: skip
from benchmarks.speed.protocol import peak_megabytes
from benchmarks.tasks.cases import CASES, Case, our_settings

SYSTEMS = ("bertsmith", "transformers")
MAX_SEEDS = 100
HEADING = ("data set", "score", "bertsmith", "Trainer", "seconds", "Trainer", "time",
           "peak memory, MB", "Trainer", "seeds")  # fmt: skip


def main() -> None:
    """Run what is asked for and not there yet; or, as a child, one job."""
    args = parse()
    if args.job:
        print(json.dumps(run_job(**json.loads(args.job))))
        return
    target = args.results / f"tasks-{args.date}.json"
    results = load(target)
    for name in args.cases:
        for seed in range(args.seeds):
            for system in SYSTEMS if seed % 2 == 0 else SYSTEMS[::-1]:
                if system == "transformers" and not CASES[name].has_peer:
                    continue
                key = f"{name}/{system}/{seed}"
                if key not in results:
                    results[key] = in_own_process(name, system, seed, args.data)
                    save(results, target, page)
    print(target.with_suffix(".md"))


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.tasks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    cases_help = f"of {', '.join(CASES)}; all if not given"
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE", help=cases_help)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--results", type=Path, default=RESULTS)
    date_help = "of the result to go on with; today if not given"
    parser.add_argument("--date", default=time.strftime("%Y-%m-%d"), help=date_help)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if unknown := sorted(set(args.cases) - set(CASES)):
        parser.error(f"found {', '.join(unknown)}; allowed are {', '.join(CASES)}.")
    return args


def in_own_process(name: str, system: str, seed: int, data: Path) -> dict[str, Any]:
    """Run a job in a child, whose peak memory is then its own."""
    job = json.dumps({"name": name, "system": system, "seed": seed, "data": str(data)})
    command = [sys.executable, "-m", "benchmarks.tasks", "--job", job]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{name} {system} seed {seed}: {result}", file=sys.stderr)
    return result


def run_job(name: str, system: str, seed: int, data: str) -> dict[str, Any]:
    """Import, then time the job."""
    case = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        run = prepare(system, case, Path(data), Path(folder), seed)
        began = time.perf_counter()
        load_average = os.getloadavg()[0]
        score, steps = run()
        return {
            "score": score,
            "steps": steps,
            "seconds": time.perf_counter() - began,
            "peak_megabytes": peak_megabytes(),
            "load_before": load_average,
            "machine": f"{machine('transformers')}.",
        }


def prepare(
    system: str, case: Case, data: Path, folder: Path, seed: int
) -> Callable[[], tuple[float, int]]:
    """Import a side; what comes back trains, and gives score and steps."""
    if system == "transformers":
        from benchmarks.tasks import peer

        return peer.prepare(case, data, folder, seed)
    from bertsmith.system.process_options import configure_process

    configure_process()
    from bertsmith.finetuning.run import finetune
    from bertsmith.tasks.catalog import task_named
    from bertsmith.training.journal import read_journal

    settings = our_settings(case, data, published_model(), folder / "out", seed)

    def run() -> tuple[float, int]:
        result = finetune(task_named(case.task), settings)
        figure = f"held_out_{case.task}_{case.metric}"
        entries = read_journal(settings.out / "journal.jsonl")
        return [entry[figure] for entry in entries if figure in entry][-1], result.training.steps

    return run


def page(results: Mapping[str, Any]) -> str:
    """Format a Markdown table per machine, as runs on different ones cannot be compared."""
    lines = [
        "# Fine-tuning every task, beside transformers' Trainer",
        "",
        "`python -m benchmarks.tasks`: all-MiniLM-L6-v2, the same examples, rate, epochs and "
        "batches on both sides, in bf16, each run in a process of "
        "its own; see its first lines.",
        "Seconds are medians of the seeds that both sides ran alone on the machine, memory is the "
        "highest peak. Of two numbers of seeds, the second is the Trainer's.",
    ]
    for place in sorted({run["machine"] for run in results.values()}):
        here = {key: run for key, run in results.items() if run["machine"] == place}
        lines += ["", place, "", *table(HEADING, rows(here))]
    return "\n".join([*lines, ""])


def rows(results: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    """Yield scores and what they cost, for each data set that bertsmith was trained on."""
    for name, case in CASES.items():
        ours, theirs = (
            {
                seed: run
                for seed in range(MAX_SEEDS)
                if (run := results.get(f"{name}/{side}/{seed}"))
            }
            for side in SYSTEMS
        )
        if not ours:
            continue
        sides = [runs for runs in (ours, theirs) if runs]
        timed = [{seed for seed, run in runs.items() if run["seconds"]} for runs in sides]
        medians = [
            statistics.median(runs[seed]["seconds"] for seed in set.intersection(*timed))
            for runs in sides
            if set.intersection(*timed)
        ]
        cells = [
            [spread((100 * run["score"] for run in runs.values()), 2) for runs in sides],
            [f"{each:,.0f}" for each in medians],
            [f"{max(run['peak_megabytes'] for run in runs.values()):,.0f}" for runs in sides],
        ]
        scores, seconds, memory = ([*pair, "", ""][:2] for pair in cells)
        ratio = f"{medians[0] / medians[1]:.2f}×" if len(medians) > 1 else ""
        seeds = " and ".join(dict.fromkeys(str(len(runs)) for runs in sides))
        yield case.title, case.metric, *scores, *seconds, ratio, *memory, seeds


if __name__ == "__main__":
    main()

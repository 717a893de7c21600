"""Kill a rank at random steps of a run under torchrun, and compare it with the undisturbed run.

    python -m benchmarks.rank_kills --corpus runs/corpus --kills 20 --steps 300

Both runs have `--exact` sums, so that the weights must have the same bytes. It takes about half a
minute for each kill on two cores, most of it for starting Python again.
"""

import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.common import ROOT

POLL_SECONDS = 0.2


def main() -> None:
    """Train alone, then with kills, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "rank-kills")
    args = parser.parse_args()
    shutil.rmtree(args.work, ignore_errors=True)
    args.work.mkdir(parents=True)
    words = [
        "-m", "bertsmith", "-q", "pretrain", "--corpus", args.corpus, "--preset", "tiny",
        "--max-length", "32", "--batch-size", "12", "--micro-batch-size", "1", "--eval-rows", "16",
        "--steps", args.steps, "--checkpoint-every", "10", "--precision", "fp32", "--exact",
    ]  # fmt: skip
    alone, disturbed = args.work / "alone", args.work / "disturbed"
    subprocess.run([sys.executable, *map(str, [*words, "--out", alone])], check=True)
    began = time.monotonic()
    launcher = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
        args.ranks, "--max-restarts", args.kills, *words, "--out", disturbed,
    ]  # fmt: skip
    with (args.work / "log.txt").open("w") as log:
        run = subprocess.Popen(list(map(str, launcher)), stdout=log, stderr=subprocess.STDOUT)
        steps = kill_ranks(run, disturbed, args)
    seconds = time.monotonic() - began
    is_same = digest(alone) == digest(disturbed) if run.returncode == 0 else False
    print(f"killed a rank {len(steps)} times, after the steps {', '.join(map(str, steps))}")
    print(f"exit code {run.returncode} after {seconds:.0f} s; same bytes: {is_same}")
    raise SystemExit(0 if is_same and len(steps) == args.kills else 1)


def kill_ranks(run: subprocess.Popen[bytes], out: Path, args: argparse.Namespace) -> list[int]:
    """Kill a random rank whenever some more steps are done; return the steps."""
    draw = random.Random(0)
    killed_at: list[int] = []
    steps_per_kill = args.steps // (args.kills + 1)
    next_kill = draw.randint(2, max(2, steps_per_kill))
    while run.poll() is None:
        time.sleep(POLL_SECONDS)
        step = count_steps(out)
        if len(killed_at) < args.kills and step >= next_kill:
            ranks = children_of(run.pid)
            if len(ranks) == args.ranks:  # after a restart, not before all are there
                os.kill(draw.choice(ranks), signal.SIGKILL)
                killed_at.append(step)
                next_kill = len(killed_at) * steps_per_kill
                next_kill += draw.randint(2, max(2, steps_per_kill))
                wait_for_other_ranks(run, ranks)
    return killed_at


def wait_for_other_ranks(run: subprocess.Popen[bytes], before: list[int]) -> None:
    """Wait until the launcher has ended these ranks and started others."""
    while run.poll() is None and set(children_of(run.pid)) & set(before):
        time.sleep(POLL_SECONDS)


def children_of(process: int) -> list[int]:
    """Return the ids of a launcher's ranks."""
    listing = subprocess.run(
        ["pgrep", "-P", str(process)], capture_output=True, text=True, check=False
    )
    return [int(word) for word in listing.stdout.split()]


def count_steps(out: Path) -> int:
    """Count the steps in the journal of a run."""
    journal = out / "journal.jsonl"
    if not journal.exists():
        return 0
    return journal.read_text(encoding="utf-8").count('"gradient_norm"')


def digest(out: Path) -> str:
    """Return the checksum of a run's weights."""
    return hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest()


if __name__ == "__main__":
    main()

"""Print the efficiency of several machines for some sizes of a model, as a table in Markdown.

    python -m benchmarks.scaling_table --corpus runs/corpus

`bertsmith plan` measures a step of each size here; the rest is the arithmetic of what must travel
(`bertsmith/pretraining/scaling.py`).
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bertsmith.pretraining.scaling import Scaling, parse_bandwidth

PRESETS = "mini", "small", "base"
NODES = 2, 4, 8, 16
BANDWIDTHS = "1Gbit", "10Gbit"


def main() -> None:
    """Measure each size, and print its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--batch-size", type=int, default=256)
    args = parser.parse_args()
    print(f"| model | step alone | network | {' | '.join(f'{n} machines' for n in NODES)} |")
    print(f"|---|---|---|{'---|' * len(NODES)}")
    for preset in PRESETS:
        facts = plan_of(preset, args)
        for bandwidth in BANDWIDTHS:
            shown = [efficiency(facts, nodes, bandwidth) for nodes in NODES]
            seconds = facts["step"]["seconds"]
            print(
                f"| {preset}, {facts['parameters'] / 1e6:.1f} M | {seconds:.1f} s | {bandwidth} | "
                f"{' | '.join(shown)} |",
                flush=True,
            )


def plan_of(preset: str, args: argparse.Namespace) -> dict[str, Any]:
    """Run `bertsmith plan` for a size of the model."""
    words = [
        *("-m", "bertsmith", "-q", "plan", "--json", "--corpus", args.corpus, "--preset", preset),
        *("--steps", 1000, "--batch-size", args.batch_size, "--max-length", 128),
    ]
    result = subprocess.run(
        [sys.executable, *map(str, words)], check=True, capture_output=True, text=True
    )
    facts: dict[str, Any] = json.loads(result.stdout)
    return facts


def efficiency(facts: dict[str, Any], nodes: int, bandwidth: str) -> str:
    """Return the share of the machines' time in which they compute, in percent."""
    seconds = facts["step"]["seconds"]
    scaling = Scaling(nodes, facts["parameters"], seconds, parse_bandwidth(bandwidth))
    return f"{scaling.efficiency:.0%}"


if __name__ == "__main__":
    main()

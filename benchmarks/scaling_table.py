"""Print the efficiency of several machines for some sizes of a model.

    python -m benchmarks.scaling_table --speeds mini=9269 small=3247 base=576

The speeds are those of one machine in tokens a second, as `make bench` measures them. The rest is
the arithmetic of what must travel (`bertsmith/pretraining/scaling.py`).
"""

import argparse
import json
import subprocess
import sys

from bertsmith.pretraining.scaling import Scaling, parse_bandwidth

NODES = 2, 4, 8, 16
BANDWIDTHS = "1Gbit", "10Gbit"


def main() -> None:
    """Print a line for each size and network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--speeds", nargs="+", required=True, metavar="SIZE=TOKENS_PER_SECOND")
    parser.add_argument("--tokens", type=int, default=256 * 128, help="tokens in a step")
    args = parser.parse_args()
    print(f"{'machines':32}{''.join(f'{nodes:>6}' for nodes in NODES)}")
    for text in args.speeds:
        size, _, speed = text.partition("=")
        parameters = count_parameters(size)
        seconds = args.tokens / float(speed)
        for bandwidth in BANDWIDTHS:
            shares = (efficiency(parameters, seconds, nodes, bandwidth) for nodes in NODES)
            head = f"{size:6}{parameters / 1e6:6.1f} M {seconds:6.1f} s  {bandwidth}"
            print(f"{head:32}{''.join(f'{share:6.0%}' for share in shares)}")


def count_parameters(size: str) -> int:
    """Return the parameters of a size of BERT for pre-training, with 30,522 tokens."""
    words = [sys.executable, "-m", "bertsmith", "params", size, "--json"]
    result = subprocess.run(words, check=True, capture_output=True, text=True)
    total: int = json.loads(result.stdout)["parameters"]
    return total


def efficiency(parameters: int, seconds: float, nodes: int, bandwidth: str) -> float:
    """Return the share of the machines' time in which they compute."""
    return Scaling(nodes, parameters, seconds, parse_bandwidth(bandwidth)).efficiency


if __name__ == "__main__":
    main()

"""Compute the rows of a step as each of 64 and of 1,024 ranks does, and count their tokens.

    python -m benchmarks.rank_shares --corpus runs/corpus

All ranks are simulated in this process, one after another: each draws the rows of its own share
alone. Together these must be the rows, with their masks, that one rank draws for the whole step. A
step takes as long as the rank with the most tokens, so the last column is the most that ranks lose
by their different numbers of tokens.
"""

import argparse
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from bertsmith.data.batches import Batch
from bertsmith.data.corpus import Corpus
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.training.settings import OptimSettings
from bertsmith.training.workers.share import Plan

NUM_RANKS = 64, 1024
STEP = 3
"""Number of the step that is drawn; any step would do."""


def main() -> None:
    """Print a line for each number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=32, help="rows of each rank in a step")
    parser.add_argument("--max-length", type=int, default=128)
    args = parser.parse_args()
    train = Corpus.open(args.corpus)
    settings = PretrainingSettings(max_length=args.max_length)
    print(f"{'ranks':>5}  {'rows':>6}  {'tokens of a rank: least, mean, most':^36}  most / mean")
    for num_ranks in NUM_RANKS:
        num_rows = num_ranks * args.rows
        whole, divided = (
            Pretraining(train, train, settings, batch_size=num_rows, micro_batch_size=rows_at_once)
            for rows_at_once in (num_rows, args.rows)
        )
        shares = [
            # A copy for each rank, so that none has rows that another one has drawn.
            batches_of(divided.resized(num_rows, divided.eval_rows), rank, num_ranks)
            for rank in range(num_ranks)
        ]
        together = Counter(row for share in shares for row in rows_of(share))
        if together != Counter(rows_of(batches_of(whole, 0, 1))):
            raise SystemExit(f"the rows of {num_ranks} ranks are not those of one")
        tokens = [sum(batch.num_tokens for batch in share) for share in shares]
        mean = sum(tokens) / num_ranks
        print(
            f"{num_ranks:5,}  {num_rows:6,}  {min(tokens):12,}{mean:12,.0f}{max(tokens):12,}"
            f"  {max(tokens) / mean:11.3f}"
        )


def batches_of(objective: Pretraining, rank: int, num_ranks: int) -> list[Batch]:
    """Draw one rank's share of a step, as training divides the step into micro-batches."""
    plan = Plan(
        objective, OptimSettings(), objective.seed, num_shares=1, rank=rank, num_ranks=num_ranks
    )
    num_micro_batches = objective.num_micro_batches(STEP)
    indices = range(plan.first_micro_batch(0), num_micro_batches, plan.all_shares)
    return [objective.micro_batch(STEP, index) for index in indices]


def rows_of(batches: Iterable[Batch]) -> list[bytes]:
    """Return the token ids of each row, with masks, as bytes."""
    return [
        row.numpy().tobytes()
        for batch in batches
        for row in batch.input_ids.split(list(batch.lengths))
    ]


if __name__ == "__main__":
    main()

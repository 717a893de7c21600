"""Train small models on all ranks of a launch; rank 0 prints losses and weights as JSON.

Run as `python rank_script.py CORPUS`, with the variables of the environment that a launcher sets.
Without these, one process trains alone.
"""

import hashlib
import json
import sys
from typing import Any

import torch
from small_workers import small_model, small_objective, train

from bertsmith.pretraining import row_source
from bertsmith.system.launch import read_launch
from bertsmith.training.layerwise import LayerwiseOptim
from bertsmith.training.machine import EXACT_PARTS
from bertsmith.training.settings import OptimSettings
from bertsmith.training.workers.distributed import DistributedWorkers, serve_rank
from bertsmith.training.workers.local import LocalWorkers
from bertsmith.training.workers.member import Plan
from bertsmith.training.workers.rank_group import RankGroup

row_source.EVALUATION_TOKENS = 64  # several eval batches, for the ranks to share
ADAMW = OptimSettings(learning_rate=3e-3, weight_decay=0.1)
SCENARIOS: dict[str, tuple[OptimSettings, torch.dtype, bool]] = {
    "adamw": (ADAMW, torch.float32, False),
    "muon": (OptimSettings(optimizer="muon", learning_rate=3e-3), torch.float32, False),
    "frozen": (
        LayerwiseOptim(learning_rate=3e-3, num_layers=2, freeze_layers=1),
        torch.float32,
        False,
    ),
    "bf16": (ADAMW, torch.bfloat16, False),
    "exact adamw": (ADAMW, torch.float32, True),
    "exact muon": (OptimSettings(optimizer="muon", learning_rate=3e-3), torch.float32, True),
}
"""Optimizer, number format, and whether sums have one order, whatever the number of ranks."""


def results_of(corpus: Any, ranks: RankGroup | None) -> dict[str, Any]:
    """Train each scenario for four steps; a step has six rows in three micro-batches."""
    results: dict[str, Any] = {}
    num_parts: dict[str, int] = {}
    num_ranks = 1 if ranks is None else ranks.num_ranks
    for name, (optim, dtype, is_exact) in SCENARIOS.items():
        num_members = EXACT_PARTS // num_ranks if is_exact else 2
        plan = Plan(small_objective(corpus), optim, 3, num_members, is_exact=is_exact)
        workers: LocalWorkers | DistributedWorkers
        if ranks is None:
            workers = LocalWorkers(small_model(), dtype, plan, num_processes=1)
        else:
            workers = DistributedWorkers(small_model(), dtype, plan, ranks, num_processes=1)
        with workers:
            figures = train(workers, 1, 5)
            evaluated = workers.evaluate()
            figures.append(plan.objective.combine(evaluated))
            state = workers.state_dict()
        local = workers if isinstance(workers, LocalWorkers) else workers.local
        tensors = [*local.layout.views(local.arrays.weights).values(), *state.values()]
        digest = hashlib.sha256()
        for tensor in tensors:
            digest.update(tensor.contiguous().numpy().tobytes())
        num_parts[name] = len(evaluated)
        results[name] = {"figures": figures, "digest": digest.hexdigest()}
    return {"results": results, "num_parts": num_parts}


if __name__ == "__main__":
    launch = read_launch()
    if launch is None:
        print(json.dumps(results_of(sys.argv[1], None)))
        raise SystemExit
    ranks = RankGroup(launch)
    if ranks.rank == 0:
        print(json.dumps(results_of(sys.argv[1], ranks)))
        ranks.broadcast(("end", 0))
    else:
        serve_rank(ranks)
    ranks.close()

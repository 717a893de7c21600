"""Train small models on all ranks of a launch; rank 0 prints losses and weights as JSON.

Run as `python rank_script.py CORPUS`, with the variables of the environment that a launcher sets.
Without these, one process trains alone.
"""

import hashlib
import json
import sys
from dataclasses import dataclass
from typing import Any

import torch
from small_workers import small_model, small_objective, train

from bertsmith.distillation.objective import DistillationWeights
from bertsmith.distillation.pretraining_objective import PretrainingDistillation
from bertsmith.model.shared import SharedModel
from bertsmith.pretraining import row_source
from bertsmith.system.launch import read_launch
from bertsmith.training.layerwise import LayerwiseOptim
from bertsmith.training.machine import EXACT_SHARES
from bertsmith.training.settings import OptimSettings
from bertsmith.training.workers.distributed import DistributedWorkers, serve_rank
from bertsmith.training.workers.local import LocalWorkers
from bertsmith.training.workers.rank_group import RankGroup
from bertsmith.training.workers.share import Plan

row_source.EVALUATION_TOKENS = 64  # several eval batches, for the ranks to share
ADAMW = OptimSettings(learning_rate=3e-3, weight_decay=0.1)
MUON = OptimSettings(optimizer="muon", learning_rate=3e-3)
WEIGHTS = DistillationWeights(soft_weight=0.6, soft_temperature=2.0, hidden_weight=0.3)


@dataclass(frozen=True)
class Scenario:
    optim: OptimSettings = ADAMW
    dtype: torch.dtype = torch.float32
    is_exact: bool = False
    """Whether sums have one order, whatever the number of ranks."""
    has_teacher: bool = False


SCENARIOS = {
    "adamw": Scenario(),
    "muon": Scenario(MUON),
    "frozen": Scenario(LayerwiseOptim(learning_rate=3e-3, num_layers=2, freeze_layers=1)),
    "bf16": Scenario(dtype=torch.bfloat16),
    "distillation": Scenario(has_teacher=True),
    "exact adamw": Scenario(is_exact=True),
    "exact muon": Scenario(MUON, is_exact=True),
    "exact distillation": Scenario(is_exact=True, has_teacher=True),
}


def objective_of(scenario: Scenario, corpus: Any) -> Any:
    if not scenario.has_teacher:
        return small_objective(corpus)
    teacher = SharedModel(small_model(seed=5).eval())
    pretraining = small_objective(corpus, pairs="none")
    return PretrainingDistillation(pretraining, teacher, WEIGHTS, "the teacher's digest")


def results_of(corpus: Any, ranks: RankGroup | None) -> dict[str, Any]:
    """Train each scenario for four steps; a step has six rows in three micro-batches."""
    results: dict[str, Any] = {}
    num_parts: dict[str, int] = {}
    num_ranks = 1 if ranks is None else ranks.num_ranks
    for name, scenario in SCENARIOS.items():
        num_shares = EXACT_SHARES // num_ranks if scenario.is_exact else 2
        objective = objective_of(scenario, corpus)
        plan = Plan(objective, scenario.optim, 3, num_shares, is_exact=scenario.is_exact)
        model, dtype = small_model(), scenario.dtype
        workers: LocalWorkers | DistributedWorkers
        if ranks is None:
            workers = LocalWorkers(model, dtype, plan, num_processes=1)
        else:
            workers = DistributedWorkers(model, dtype, plan, ranks, num_processes=1)
        with workers:
            figures = train(workers, 1, 5)
            evaluated = workers.evaluate()
            figures.append(objective.evaluation.combine(evaluated))
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

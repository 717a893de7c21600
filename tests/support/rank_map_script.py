"""Map functions over items on all ranks of a launch; rank 0 prints the results as JSON."""

import json
import os

from bertsmith.errors import InputError
from bertsmith.system.launch import read_launch
from bertsmith.training.workers.distributed import serve_rank
from bertsmith.training.workers.rank_group import RankGroup
from bertsmith.training.workers.rank_map import map_on_ranks


def with_rank(item: int) -> tuple[int, str]:
    return item, os.environ["RANK"]


def fail_on_rank_1(item: int) -> int:
    if os.environ["RANK"] == "1":
        raise InputError(f"item {item} is bad")
    return item


if __name__ == "__main__":
    launch = read_launch()
    assert launch is not None
    ranks = RankGroup(launch)
    if ranks.rank > 0:
        serve_rank(ranks)
    else:
        abandoned = map_on_ranks(ranks, with_rank, range(9), "fp32")
        next(abandoned)
        results = list(map_on_ranks(ranks, with_rank, range(5), "fp32"))
        try:
            list(map_on_ranks(ranks, fail_on_rank_1, range(5), "fp32"))
        except InputError as error:
            print(json.dumps({"results": results, "error": error.message}))
        ranks.broadcast(("end", 0))
    ranks.close()

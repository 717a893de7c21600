"""`bertsmith hardware`: what this computer does best, as measured."""

import json
import sys
from dataclasses import asdict
from typing import Annotated

import tyro

from bertsmith.hardware import measure, measured, select_device


def main(json_: Annotated[bool, tyro.conf.arg(name="json")] = False, fresh: bool = False) -> None:
    """Show how fast this computer multiplies matrices, and what bertsmith therefore uses.

    Nearly all of BERT's time goes into matrix products. The figures are measured once and
    remembered; a run then uses the fastest way that keeps the promised accuracy.

    Args:
        json_: Print one JSON object instead of text.
        fresh: Measure again instead of showing the remembered figures.
    """
    found = measure() if fresh else measured()
    chosen = {
        "device": str(select_device("auto")),
        "precision": found.precision,
        "float32_route": found.float32_route,
    }
    if json_:
        print(json.dumps(asdict(found) | chosen))
        return
    lines = [
        f"processor            {found.processor}, {found.threads} threads",
        f"fp32                 {found.fp32_gflops:,.0f} GFLOP/s",
        f'fp32, "medium"       {found.fp32_medium_gflops:,.0f} GFLOP/s, '
        f"relative error {found.fp32_medium_error:.1e}",
        f"bf16                 {found.bf16_gflops:,.0f} GFLOP/s",
        f"bertsmith will use   {chosen['device']}, training in {chosen['precision']}, "
        f'fp32 products by the "{chosen["float32_route"]}" route',
    ]
    print("\n".join(lines), file=sys.stdout)

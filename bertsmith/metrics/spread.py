"""Mean and standard deviation of a score over runs."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Return `mean` and sample standard deviation `sd` of scores, and the scores as `values`.

    The standard deviation divides by n - 1; it is None for a single score.
    """
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "sd": sd, "values": list(values)}

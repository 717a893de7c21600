"""Mean and standard deviation of a score over runs."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Return `values` with their `mean` and sample standard deviation `sd`.

    The standard deviation divides by n - 1; it is None for a single value.
    """
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "sd": sd, "values": list(values)}

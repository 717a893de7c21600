"""Mean and standard deviation of a score over runs."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Compute mean and sample standard deviation (by n - 1; None for a single value)."""
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "sd": sd, "values": list(values)}

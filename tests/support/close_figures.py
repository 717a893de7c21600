"""Compare figures of two processes, which may round fp32 products in different ways."""

from collections.abc import Mapping
from typing import Any

import pytest


def close(value: Any) -> Any:
    """Return a value that equals others with nearly the same floats and the same of all else."""
    if isinstance(value, float):
        return pytest.approx(value, rel=1e-5, abs=1e-6)
    if isinstance(value, Mapping):
        return {key: close(item) for key, item in value.items()}
    return type(value)(map(close, value)) if isinstance(value, list | tuple) else value

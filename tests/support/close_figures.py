"""Figures that are equal but for rounding: which route fp32 products take is a process's choice."""

from collections.abc import Mapping
from typing import Any

import pytest


def close(value: Any) -> Any:
    """Equal to what has the same keys, texts and counts, and nearly the same fractions."""
    if isinstance(value, float):
        return pytest.approx(value, rel=1e-5, abs=1e-6)
    if isinstance(value, Mapping):
        return {key: close(item) for key, item in value.items()}
    return type(value)(map(close, value)) if isinstance(value, list | tuple) else value

"""The axis along which the bars of a page are drawn."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """An axis for bars: its left end stands for the value `low`, its right end for `high`."""

    low: float
    high: float

    @classmethod
    def around_zero(cls, values: Sequence[float]) -> "Scale":
        """Build a scale with 0 in the middle that holds all values."""
        # If all values are 0, any length of the axis will do.
        largest = max(map(abs, values), default=0.0) or 1.0
        return cls(-largest, largest)

    def percent(self, value: float) -> float:
        """Return the position of a value on the axis, from 0 (left end) to 100 (right end)."""
        return round(100 * min(1.0, max(0.0, (value - self.low) / (self.high - self.low))), 2)

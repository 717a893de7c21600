"""Mean of the latest values of a figure."""

WEIGHT = 0.1
"""Share of the newest value: the mean is about that of the last twenty."""


class RunningMean:
    """A mean in which older values count less and less; 0 before the first value."""

    def __init__(self) -> None:
        self.value = 0.0
        self._is_empty = True

    def add(self, value: float) -> None:
        """Add a value."""
        self.value = value if self._is_empty else (1 - WEIGHT) * self.value + WEIGHT * value
        self._is_empty = False

"""Means of a run's metrics over several steps, for displays and trackers."""

from collections.abc import Mapping

NOT_AVERAGED = ("slowest_rank",)
"""Names of values that number something, such as a rank: the last value is returned, no mean."""


class RunningMeans:
    """Adds up the values of journal entries (the metrics of steps) by name; each has its count."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}

    def add(self, entry: Mapping[str, float]) -> None:
        for name, value in entry.items():
            if name in NOT_AVERAGED:
                self._sums[name], self._counts[name] = value, 1
            else:
                self._sums[name] = self._sums.get(name, 0.0) + value
                self._counts[name] = self._counts.get(name, 0) + 1

    def take(self) -> dict[str, float]:
        """Return the mean of each name since the last call (see `NOT_AVERAGED`), and reset."""
        means = {name: self._sums[name] / self._counts[name] for name in self._sums}
        self._sums, self._counts = {}, {}
        return means

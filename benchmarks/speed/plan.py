"""The settings of a run of `benchmarks.speed`: its data, its work folder, and its length."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Plan:
    """The settings that all parts share."""

    data: Path
    work: Path
    threads: int
    is_quick: bool
    minutes: float = 10.0
    """Minutes for which each side of `time_to_quality` trains."""

    @property
    def rounds(self) -> int:
        """Number of turns of each contender."""
        return 3 if self.is_quick else 5

    @property
    def seconds(self) -> float:
        """Seconds that a turn should take; a single step may take longer."""
        return 1.0 if self.is_quick else 2.0

    def file(self, name: str) -> Path:
        """Return a file of the data.

        Raises:
            SystemExit: it is missing.
        """
        path = self.data / name
        if not path.exists():
            raise SystemExit(
                f"{path}: not found. The benchmark measures on real data; name the folder that has "
                f"{name} with --data DIR (or BERTSMITH_DATA)."
            )
        return path

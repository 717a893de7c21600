"""How much memory processes hold, as the system counts it; on Linux alone.

What processes share, a run's arrays and the code of libraries, counts once.
"""

from collections.abc import Iterable
from pathlib import Path

KILOBYTE = 1024


def resident_bytes(process_ids: Iterable[int]) -> int | None:
    """Memory that processes hold together now; None where the system does not tell.

    A page of an array that several of them see counts for each in part. The code of libraries is
    that of the process that has read most of it: other programs may have the same.
    """
    own, code = 0, 0
    try:
        for process_id in process_ids:
            folder = Path("/proc") / str(process_id)
            shares = _kilobytes(folder / "smaps_rollup")
            own += shares["Pss_Anon"] + shares["Pss_Shmem"]
            code = max(code, _kilobytes(folder / "status")["RssFile"])
    except (OSError, KeyError):
        return None
    return KILOBYTE * (own + code)


def available_bytes() -> int | None:
    """Memory that programs can still have; None where the system does not tell."""
    try:
        return KILOBYTE * _kilobytes(Path("/proc/meminfo"))["MemAvailable"]
    except (OSError, KeyError):
        return None


def _kilobytes(file: Path) -> dict[str, int]:
    """The lines `name: number kB` of one of the system's files."""
    lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines()]
    return {
        words[0].rstrip(":"): int(words[1])
        for words in lines
        if len(words) == 3 and words[2] == "kB"
    }

"""Limits that a container or a service manager sets by Linux's control groups, version 1 and 2.

A group's limits hold for all groups within it, so the smallest limit from a process's group up to
the root applies.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

CGROUPS = Path("/sys/fs/cgroup")
"""Folder that has a folder for each group, with the group's limits in files."""
MEMBERSHIP = Path("/proc/self/cgroup")
"""File with the groups of this process, one line each: `number:controllers:path`."""
VERSION_2 = ("", "unified")
"""Folders of version 2 within `CGROUPS`; folders of version 1 are named by their controllers."""
MEMORY_FILES = (
    ("memory.max", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
)
"""Files with a group's limit of memory and its use of memory, in version 2 and in version 1."""
NO_LIMIT_BYTES = 2**60
"""Smallest number that stands for no limit: version 1 writes one near 2^63 for unlimited memory."""


def cpu_limit(root: Path = CGROUPS, membership: Path = MEMBERSHIP) -> float | None:
    """Return how many cores' time this process may use, such as 1.5; None without a limit."""
    limits = []
    for folder in _groups("cpu", root, membership):
        limits += _cores_of(_words(folder / "cpu.max", 2))
        quota = _words(folder / "cpu.cfs_quota_us", 1)
        period = _words(folder / "cpu.cfs_period_us", 1)
        limits += _cores_of([*quota, *period])
    return min(limits, default=None)


def memory_left(root: Path = CGROUPS, membership: Path = MEMBERSHIP) -> int | None:
    """Return the bytes that this process may still allocate; None without a limit."""
    bytes_left = []
    for folder in _groups("memory", root, membership):
        for limit_file, usage_file in MEMORY_FILES:
            words = [*_words(folder / limit_file, 1), *_words(folder / usage_file, 1)]
            if len(words) != 2 or not all(word.isdecimal() for word in words):
                continue  # a file is missing, or the limit is "max"
            limit, usage = map(int, words)
            if limit < NO_LIMIT_BYTES:
                bytes_left.append(max(0, limit - usage + _cached_file_bytes(folder)))
    return min(bytes_left, default=None)


def _groups(controller: str, root: Path, membership: Path) -> Iterator[Path]:
    """Yield the folders of this process's group and those around it, up to the root.

    In a container the paths in `membership` may be the host's; then only the root exists here.
    """
    paths = {"/"}
    try:
        lines = membership.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):  # missing, or a group's name is not UTF-8
        lines = []
    for line in lines:
        _, _, controllers_and_path = line.partition(":")
        controllers, _, path = controllers_and_path.partition(":")
        if not controllers or controller in controllers.split(","):
            paths.add(path)
    bases = [root / name for name in VERSION_2]
    try:
        bases += [base for base in root.iterdir() if controller in base.name.split(",")]
    except OSError:
        return
    seen = set()
    for base in bases:
        for path in paths:
            parts = [part for part in PurePosixPath(path).parts if part not in ("/", "..")]
            for depth in range(len(parts), -1, -1):
                folder = base.joinpath(*parts[:depth])
                if folder not in seen:
                    seen.add(folder)
                    yield folder


def _words(file: Path, count: int) -> list[str]:
    """Read the words of a file. The list is empty if the file is missing or has not `count`."""
    try:
        words = file.read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return []
    return words if len(words) == count else []


def _cores_of(words: Sequence[str]) -> list[float]:
    """Return a list of one number of cores, quota / period, from these two words.

    The list is empty where a word is missing or there is no quota ("max", or -1).
    """
    if len(words) != 2 or not all(word.isdecimal() for word in words):
        return []
    quota, period = map(int, words)
    return [quota / period] if quota and period else []


def _cached_file_bytes(folder: Path) -> int:
    """Return the bytes of cached files, which the system frees when memory is needed."""
    try:
        lines = (folder / "memory.stat").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return 0
    entries = [line.split() for line in lines]
    numbers = dict(entry for entry in entries if len(entry) == 2)
    inactive_bytes = numbers.get("total_inactive_file", numbers.get("inactive_file", "0"))
    return int(inactive_bytes) if inactive_bytes.isdecimal() else 0


def whole_cores(limit: float) -> int:
    """Round a limit up to whole cores.

    >>> whole_cores(0.5), whole_cores(2.0), whole_cores(2.25)
    (1, 2, 3)
    """
    return max(1, math.ceil(limit))

"""Memory of processes, mostly as Linux counts it, and errors about too little memory.

In the sum over several processes, memory that they share, such as a run's arrays and the code of
libraries, counts once.
"""

import errno
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from bertsmith.system.cgroups import memory_left

KILOBYTE = 1024
NO_THREAD = "can't start new thread"
"""Python's message if there is no memory for a thread's stack, or if the limit of processes, which
counts threads, is reached."""
LACK_SIGNS = (
    "allocate memory",  # torch on a CPU, and the system
    "out of memory",  # torch on CUDA and MPS
    "ALLOC_FAILED",  # CUDA's libraries
    "bad_alloc",
    "could not create a memory",  # oneDNN
    "failed to map segment",  # while loading a library
    NO_THREAD,
)
"""Parts of libraries' error messages when memory is lacking."""
REQUESTED_PATTERN = re.compile(r"allocate ([\d.]+) ?(bytes|[KMGT]i?B)")
BYTE_UNITS = {"b": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def lacks_memory(error: BaseException) -> bool:
    """Return whether an error of any library says that there is too little memory."""
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    return any(sign in str(error) for sign in LACK_SIGNS)


def requested_bytes(error: BaseException) -> int | None:
    """Read from a `lacks_memory` error how many bytes were requested; None if it has no number."""
    match = REQUESTED_PATTERN.search(str(error))
    if match is None:
        return None
    return round(float(match[1]) * BYTE_UNITS[match[2][0]])


def resident_bytes(process_ids: Iterable[int]) -> int | None:
    """Return the memory that processes hold together; None if unknown.

    A shared page of an array is divided among the processes that share it. The code of libraries,
    which other programs may share, too, counts once: as much as the process with most of it has.
    """
    own_kilobytes = 0
    code_kilobytes = 0
    try:
        for process_id in process_ids:
            folder = Path("/proc") / str(process_id)
            # PSS, proportional set size: of a page that n processes share, each has one n-th.
            proportional = _kilobytes(folder / "smaps_rollup")
            own_kilobytes += proportional["Pss_Anon"] + proportional["Pss_Shmem"]
            code_kilobytes = max(code_kilobytes, _kilobytes(folder / "status")["RssFile"])
    except (OSError, KeyError):
        return None
    return KILOBYTE * (own_kilobytes + code_kilobytes)


def peak_bytes() -> int | None:
    """Return the most memory that this process has held so far; None if unknown."""
    if sys.platform == "win32":
        return None
    import resource

    unit = 1 if sys.platform == "darwin" else KILOBYTE
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def own_peak_bytes() -> int | None:
    """Return the most memory that this process has held since its program began; None if unknown.

    On Linux `peak_bytes` is at least what the process that started this one held at that time.
    """
    try:
        status = _kilobytes(Path("/proc/self/status"))
        return KILOBYTE * status["VmHWM"]  # the "high-water mark"
    except (OSError, KeyError):
        return peak_bytes()


def available_bytes() -> int | None:
    """Return the memory that this process can still allocate; None if unknown.

    It is the smaller of the memory left in the system and in the container.
    """
    try:
        free = KILOBYTE * _kilobytes(Path("/proc/meminfo"))["MemAvailable"]
    except (OSError, KeyError):
        return memory_left()
    left = memory_left()
    return free if left is None else min(free, left)


def _kilobytes(file: Path) -> dict[str, int]:
    """Parse the lines `name: number kB` of a file in /proc."""
    # Linux cuts the name of a process after 15 bytes, perhaps within a character.
    text = file.read_text(encoding="utf-8", errors="replace")
    lines = [line.split() for line in text.splitlines()]
    return {
        words[0].rstrip(":"): int(words[1])
        for words in lines
        if len(words) == 3 and words[2] == "kB"
    }

"""Resident memory of a running server, process by process."""

from pathlib import Path


def memory_by_process(process_id: int) -> dict[int, float]:
    """Return the resident memory in MB of a process and its children, by process id."""
    memory = {}
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in path.read_text().splitlines())
        except OSError:  # the process has ended meanwhile
            continue
        if process_id in (int(fields["Pid"]), int(fields["PPid"])) and "VmRSS" in fields:
            memory[int(fields["Pid"])] = int(fields["VmRSS"].split()[0]) / 1024
    return dict(sorted(memory.items()))


def format_memory(memory: dict[int, float]) -> str:
    """Describe the memory as a sum and its parts.

    >>> format_memory({7: 60.4, 9: 500.0})
    '560 MB (60 + 500)'
    """
    parts = " + ".join(f"{megabytes:.0f}" for megabytes in memory.values())
    return f"{sum(memory.values()):.0f} MB ({parts})"

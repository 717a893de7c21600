"""The processor cores that this process may use."""

import os

from bertsmith.system.cgroups import cpu_limit, whole_cores


def available_cores() -> int:
    """Count the cores that CPU affinity and the container's limit allow this process."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    limit = cpu_limit()
    return cores if limit is None else min(cores, whole_cores(limit))

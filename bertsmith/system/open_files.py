"""The number of files and connections that this process may have open."""

import sys


def allow_open_files(count: int) -> int:
    """Raise the limit on open files towards `count`, as far as the system allows.

    Returns:
        `count`, or the limit if it is lower.
    """
    if sys.platform == "win32":  # there is no such limit
        return count
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return count
    soft = count if hard == resource.RLIM_INFINITY else min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft

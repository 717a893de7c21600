"""A temporary folder that no stop signal leaves behind."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertsmith.system.stop_signal import delaying_stops


@contextmanager
def temporary_folder(inside: Path | None = None) -> Iterator[Path]:
    """Yield a new folder, which is removed with its files when the block ends.

    A stop signal waits while the folder is made or removed. Python's own `TemporaryDirectory`
    leaves it if a signal comes just then.

    Args:
        inside: the folder in which to make it; by default that of the system's temporary files.

    Raises:
        KeyboardInterrupt: the process got such a signal.
    """
    folder: tempfile.TemporaryDirectory[str] | None = None
    try:
        with delaying_stops():
            folder = tempfile.TemporaryDirectory(prefix="bertsmith-", dir=inside)
        yield Path(folder.name)
    finally:
        if folder is not None:
            with delaying_stops():
                folder.cleanup()

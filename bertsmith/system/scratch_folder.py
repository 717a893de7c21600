"""A temporary folder that is made when the first file needs it."""

import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from bertsmith.system.stop_signal import delaying_stops


class ScratchFolder:
    """Folder of an object's temporary files; a context manager that removes it at the end."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._num_files = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._folder is not None:
            with delaying_stops():  # which would leave the folder
                self._folder.cleanup()

    def new_path(self, suffix: str) -> Path:
        """Return the path of a file that is not there yet."""
        if self._folder is None:
            with delaying_stops():
                self._folder = tempfile.TemporaryDirectory(prefix=self._prefix)
        self._num_files += 1
        return Path(self._folder.name, f"{self._num_files}{suffix}")

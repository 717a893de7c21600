"""Small files of a folder, each read from disk once."""

import os
from pathlib import Path


class SmallFiles:
    """Small files of a folder; a file that is asked for again is not read again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._contents: dict[str, bytes] = {}

    def path(self, name: str) -> Path:
        return self.directory / name

    def has(self, name: str) -> bool:
        """Return whether there is such a file; no damaged name is one."""
        return name in self._contents or os.path.isfile(self.path(name))  # noqa: PTH113

    def read(self, name: str) -> bytes:
        """Return a file's content.

        Raises:
            OSError: as `Path.read_bytes`.
        """
        if name not in self._contents:
            self._contents[name] = self.path(name).read_bytes()
        return self._contents[name]

"""Small files of a folder, each read from disk once."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bertsmith.errors import CheckpointError


class SmallFiles:
    """Small files of a folder, each read once."""

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

    def read_json(
        self,
        name: str,
        kind: type[Any] = dict,
        build: Callable[[list[tuple[str, Any]]], Any] | None = None,
    ) -> Any:
        """Parse a JSON file that holds a dict or another `kind`; `build` makes its objects.

        Raises:
            CheckpointError: it is damaged, or holds something else.
            FileNotFoundError: there is none.
        """
        path = self.path(name)
        try:
            value = json.loads(self.read(name).decode("utf-8"), object_pairs_hook=build)
        except IsADirectoryError as error:
            raise CheckpointError(f"{path}: a folder, not a file. Copy it again.") from error
        except (ValueError, RecursionError) as error:
            raise CheckpointError(
                f"{path}: not valid JSON ({error}). Mend it, or copy it again if it is cut short."
            ) from error
        if not isinstance(value, kind):
            allowed = "an object" if kind is dict else "a list"
            raise CheckpointError(
                f"{path}: holds {json.dumps(value)[:60]}, and must hold {allowed}. Copy it again."
            )
        return value

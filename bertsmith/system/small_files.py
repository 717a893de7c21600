"""The small files of a folder, each read from disk once."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bertsmith.errors import CheckpointError, read_error
from bertsmith.system.git_lfs import describe_pointer, is_pointer
from bertsmith.system.json_text import parse_json, shown_json

SPECIAL_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
"""Kinds of files that might be read without end."""


def read_small_file(path: Path) -> bytes:
    """Read a file that must be a regular one, such as a folder's config.json.

    Raises:
        CheckpointError: it is a named pipe, a socket, a device, or a pointer of Git LFS.
        OSError: as `Path.read_bytes`.
    """
    if special_kind := SPECIAL_KINDS.get(stat.S_IFMT(path.stat().st_mode)):
        raise CheckpointError(
            f"{path}: {special_kind}, not a file. Remove it, or copy the file itself to its place."
        )
    content = path.read_bytes()
    if is_pointer(content):
        raise CheckpointError(describe_pointer(path))
    return content


OUTER_FILES = ("modules.json", "config_sentence_transformers.json")
"""Files about all modules of a folder of sentence-transformers. The first module may be a model in
a subfolder."""


class SmallFiles:
    """Small files of a folder, each read once.

    Args:
        directory: the folder of a model.
        outer: the folder around `directory`, if that is a subfolder for the first module of
            sentence-transformers. `OUTER_FILES` and files in subfolders (names with a slash) are
            then read from `outer`, all other files from `directory`.
    """

    def __init__(self, directory: Path, outer: Path | None = None) -> None:
        self.directory = directory
        self.outer = outer
        self._contents: dict[str, bytes] = {}

    def path(self, name: str) -> Path:
        is_outer = name in OUTER_FILES or "/" in name
        return (self.outer if self.outer and is_outer else self.directory) / name

    def has(self, name: str) -> bool:
        """Return whether there is such a file.

        False also for a folder of this name, and for a name that the system refuses, for example
        because it is too long.
        """
        path = self.path(name)
        is_there = os.path.exists(path) and not os.path.isdir(path)  # noqa: PTH110, PTH112
        return name in self._contents or is_there

    def read(self, name: str) -> bytes:
        """Return a file's content.

        Raises:
            CheckpointError: as `read_small_file`, or the file cannot be read.
            OSError: there is no such file, or it is a folder.
        """
        if name not in self._contents:
            path = self.path(name)
            try:
                self._contents[name] = read_small_file(path)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise
            except OSError as error:
                raise read_error(CheckpointError, path, error) from error
        return self._contents[name]

    def read_json(
        self,
        name: str,
        content_type: type[Any] = dict,
        build: Callable[[list[tuple[str, Any]]], Any] | None = None,
    ) -> Any:
        """Parse a JSON file, whose content must be of `content_type`: dict or list.

        `build` makes each JSON object from its pairs of key and value (`object_pairs_hook`).

        Raises:
            CheckpointError: it is damaged, or holds something else.
            FileNotFoundError, NotADirectoryError: there is none.
        """
        path = self.path(name)
        try:
            value = parse_json(self.read(name).decode("utf-8-sig"), object_pairs_hook=build)
        except CheckpointError:  # a subclass of ValueError
            raise
        except IsADirectoryError as error:
            raise CheckpointError(f"{path}: a folder, not a file. Copy the file again.") from error
        except ValueError as error:
            raise CheckpointError(
                f"{path}: not valid JSON ({error}). Correct it, or copy it "
                "again if it is cut short."
            ) from error
        if not isinstance(value, content_type):
            allowed = "an object" if content_type is dict else "a list"
            raise CheckpointError(
                f"{path}: its content is {shown_json(value)}, but must be {allowed}. Copy the "
                "file again."
            )
        return value

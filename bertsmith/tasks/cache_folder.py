"""The folder that keeps what a teacher said: whose words they are goes in, or why they are not.

`manifest.json` in it says what was kept, by whom and of what. A folder that was made for something
else is refused, never added to. Arrays are files of numpy's with a checksum behind them, which
numpy does not look at.
"""

import io
import json
import mmap
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.files import atomic_write, write_json

MANIFEST = "manifest.json"
FORMAT = "bertsmith-teacher"
CHECKSUM_BYTES = 4
DIFFERING = {
    "of": "for another purpose",
    "teacher": "of another teacher",
    "tokenizer": "with another vocabulary",
    "precision": "in another --precision",
    "max_length": "with another --max-length",
    "texts": "for other texts",
    "hidden": "without the vectors of its last layer (with --hidden-weight 0)",
}
"""What a cache may have that is not what is asked for; behind the first, the rest need no word."""


def open_cache(directory: Path, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Begin a cache, or see that the one that is there is the one asked for; gives its facts.

    With "hidden" true it holds more than with false, and serves for both.

    Raises:
        ConfigError: the folder holds something else.
    """
    path = directory / MANIFEST
    wanted = {"format": FORMAT, **wanted}
    if not path.exists():
        if not is_empty(directory):
            raise _foreign(directory, "and not empty")
        write_json(path, wanted)
        return wanted
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise _foreign(directory, f"or its {MANIFEST} is damaged") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise _foreign(directory, f"its {MANIFEST} is another program's")
    if found.get("hidden") is True:
        wanted["hidden"] = True
    others = [words for name, words in DIFFERING.items() if found.get(name) != wanted.get(name)]
    if others:
        named = others[0] if others[0] == DIFFERING["of"] else ", ".join(others)
        raise ConfigError(
            f"{directory}: a cache that was made {named}. Choose another --cache, or remove this "
            "one to have it made anew."
        )
    return found


def is_empty(directory: Path) -> bool:
    """Whether nothing stands there, but for what a stopped write has left."""
    if not directory.exists():
        return True
    return directory.is_dir() and all(path.name.startswith(".") for path in directory.iterdir())


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array, whole or not at all.

    Raises:
        InputError: the disk is full, or the folder cannot be written.
    """
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    with atomic_write(path) as file, buffer.getbuffer() as content:
        file.write(content)
        file.write(zlib.crc32(content).to_bytes(CHECKSUM_BYTES, "little"))


def load_array(path: Path) -> NDArray[Any]:
    """What `save_array` wrote, read where it lies.

    Raises:
        CheckpointError: the file is damaged.
    """
    try:
        with path.open("rb") as file:
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise _damaged(path) from error
    with memory, memoryview(memory) as content:
        checksum = int.from_bytes(content[-CHECKSUM_BYTES:], "little")
        if zlib.crc32(content[:-CHECKSUM_BYTES]) != checksum:
            raise _damaged(path)
    found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return found


def _foreign(directory: Path, reason: str) -> ConfigError:
    return ConfigError(f"{directory}: is no cache of a teacher, {reason}. Choose another --cache.")


def _damaged(path: Path) -> CheckpointError:
    return CheckpointError(f"{path}: damaged. Remove this file to have it computed again.")

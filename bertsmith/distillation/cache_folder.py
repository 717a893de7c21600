"""The folder that caches a teacher's outputs.

`manifest.json` says which teacher computed the outputs, and for which texts. A folder that was made
for another teacher or other texts is refused; nothing is added to it. Arrays are numpy files
followed by a checksum, which numpy does not read.
"""

import io
import mmap
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertsmith.errors import CheckpointError, ConfigError, option, read_error
from bertsmith.system.files import atomic_write, remove_stopped_writes, write_json
from bertsmith.system.json_text import parse_json
from bertsmith.system.small_files import read_small_file

MANIFEST = "manifest.json"
CACHE_FORMAT = "bertsmith-teacher"
"""Entry "format" of a manifest, by which a folder is known to be a cache."""
CHECKSUM_BYTES = 4
"""Length of a CRC-32."""
DIFFERENCES = {
    "teacher": "of another teacher",
    "tokenizer": "with another vocabulary",
    "precision": f"in another {option('precision')}",
    "max_length": f"with another {option('max_length')}",
    "texts": "for other texts",
    "hidden": f"without the vectors of its last layer (with {option('hidden_weight', 0)})",
}
"""Texts for a message, by the facts in which an existing cache may differ."""


def open_cache(directory: Path, facts: Mapping[str, Any]) -> None:
    """Create a cache, or check the existing one.

    Args:
        facts: entries of the manifest, with the keys of `DIFFERENCES`. "hidden" says whether the
            cache has last-layer vectors. If they are not needed, a cache with them is used, too.

    Raises:
        ConfigError: the folder is not a cache, or has other outputs.
    """
    path = directory / MANIFEST
    if not path.exists():
        if not is_empty(directory):
            raise _foreign(directory, "and not empty" if directory.is_dir() else "but a file")
        write_json(path, {"format": CACHE_FORMAT, **facts})
        return
    check_cache(directory, facts)
    remove_stopped_writes(directory)


def check_cache(directory: Path, facts: Mapping[str, Any]) -> None:
    """Check that a folder is a cache with these outputs, as `open_cache` does.

    Raises:
        ConfigError: the folder is not a cache, or has other outputs.
        CheckpointError: its manifest is missing or cannot be read.
    """
    path = directory / MANIFEST
    facts = {"format": CACHE_FORMAT, **facts}
    try:
        manifest = parse_json(read_small_file(path))
    except CheckpointError:  # not the file itself, such as a pointer of Git LFS
        raise
    except OSError as error:
        raise read_error(CheckpointError, path, error) from error
    except ValueError:
        raise _foreign(directory, f"or its {MANIFEST} is damaged") from None
    if not isinstance(manifest, dict) or manifest.get("format") != CACHE_FORMAT:
        raise _foreign(directory, f"its {MANIFEST} is another program's")
    if manifest.get("hidden") is True:
        facts["hidden"] = True
    differences = [
        text for name, text in DIFFERENCES.items() if manifest.get(name) != facts.get(name)
    ]
    if differences:
        raise ConfigError(
            f"{directory}: a cache that was made {', '.join(differences)}. Choose another "
            f"{option('cache')}, or remove this one to have it made anew."
        )


def is_empty(directory: Path) -> bool:
    """Return whether a folder is missing, or holds only hidden files.

    Hidden files remain if writing was interrupted.
    """
    if not directory.exists():
        return True
    return directory.is_dir() and all(path.name.startswith(".") for path in directory.iterdir())


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array of any shape and dtype, whole or not at all.

    Raises:
        InputError: the disk is full, or the folder cannot be written.
    """
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    # sweep: leftovers of stopped writes are removed once, by `open_cache`.
    with atomic_write(path, sweep=False) as file, buffer.getbuffer() as content:
        file.write(content)
        file.write(zlib.crc32(content).to_bytes(CHECKSUM_BYTES, "little"))


def load_array(path: Path, *, is_checked: bool = False) -> NDArray[Any]:
    """Memory-map an array that `save_array` wrote.

    Its checksum is compared first, for which the whole file is read, unless this process has
    checked the file before (`is_checked`).

    Raises:
        CheckpointError: the file is damaged.
    """
    if not is_checked:
        _compare_checksum(path)
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise read_error(CheckpointError, path, error) from error
    # A file of four zero bytes gets here, since they are the checksum of an empty array file.
    except (ValueError, EOFError) as error:
        raise _damaged(path) from error


def _compare_checksum(path: Path) -> None:
    """Raise CheckpointError if a file's content differs from the checksum at its end."""
    try:
        with path.open("rb") as file:
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise read_error(CheckpointError, path, error) from error
    except ValueError as error:
        raise _damaged(path) from error
    with memory, memoryview(memory) as content:
        checksum = int.from_bytes(content[-CHECKSUM_BYTES:], "little")
        if zlib.crc32(content[:-CHECKSUM_BYTES]) != checksum:
            raise _damaged(path)


def _foreign(directory: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"{directory}: not a cache of a teacher's outputs, {reason}. Choose another "
        f"{option('cache')}."
    )


def _damaged(path: Path) -> CheckpointError:
    return CheckpointError(f"{path}: damaged. Remove this file to have it computed again.")

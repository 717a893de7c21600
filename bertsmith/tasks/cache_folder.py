"""The folder that keeps what a teacher said: whose words they are goes in, or why they are not.

`manifest.json` in it says what was kept, by whom and of what. A folder that was made for something
else is refused, never added to.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.files import write_json

MANIFEST = "manifest.json"
DIFFERING = {
    "teacher": "of another teacher",
    "tokenizer": "with another vocabulary",
    "precision": "in another --precision",
    "max_length": "with another --max-length",
    "texts": "for other texts",
    "hidden": "without the vectors of its last layer (with --hidden-weight 0)",
}
"""What a cache may have that is not what is asked for."""


def open_cache(directory: Path, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Begin a cache, or see that the one that is there is the one asked for; gives its facts.

    With "hidden" true it holds more than with false, and serves for both.

    Raises:
        ConfigError: the folder holds something else.
        CheckpointError: its manifest is damaged.
    """
    path = directory / MANIFEST
    if not path.exists():
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise ConfigError(
                f"{directory}: is no cache of a teacher, and not empty. Choose another --cache."
            )
        write_json(path, wanted)
        return dict(wanted)
    try:
        found = dict(json.loads(path.read_text(encoding="utf-8")))
        hidden = bool(found["hidden"])
    except (ValueError, KeyError, TypeError):
        raise damaged(path) from None
    if hidden:
        wanted = {**wanted, "hidden": True}
    others = [words for name, words in DIFFERING.items() if found.get(name) != wanted.get(name)]
    if others:
        raise ConfigError(
            f"{directory}: a cache that was made {', '.join(others)}. Choose another --cache, or "
            "remove this one to have it made anew."
        )
    return found


def damaged(path: Path) -> CheckpointError:
    """What to say of a file that cannot be read."""
    return CheckpointError(f"{path}: damaged. Remove the file to have it computed again.")

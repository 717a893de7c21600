"""Models and the key of a server, as they are named on a command line or in the environment."""

import os
from collections.abc import Sequence
from pathlib import Path

from bertsmith.errors import ConfigError

API_KEY = "BERTSMITH_API_KEY"


def read_api_key() -> str | None:
    """Return the key in the environment, which other users of the computer cannot list with ps.

    Raises:
        ConfigError: it is empty.
    """
    key = os.environ.get(API_KEY)
    if key == "":
        raise ConfigError(f"The environment variable {API_KEY} is empty. Set a key, or unset it.")
    return key


def named_folders(models: Sequence[str]) -> dict[str, Path]:
    """Return the folders by the names under which they are served.

    Raises:
        ConfigError: two have the same name, or one names no folder.
    """
    folders: dict[str, Path] = {}
    for text in models:
        name, equals, directory = text.partition("=")
        path = Path(directory if equals else text)
        if not equals:
            name = path.resolve().name
        if not name or not str(directory if equals else text):
            raise ConfigError(f"'{text}': give a folder, or NAME=DIR.")
        if name in folders:
            raise ConfigError(
                f"Two models have the name '{name}': {folders[name]} and {path}. Choose names: "
                f"{name}-1={folders[name]} {name}-2={path}."
            )
        folders[name] = path
    return folders

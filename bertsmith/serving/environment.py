"""Inputs of `bertsmith serve` that need parsing: arguments such as NAME=DIR, and the API key."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from bertsmith.errors import ConfigError

API_KEY = "BERTSMITH_API_KEY"
UNSENDABLE = re.compile(r"[\x00-\x1f\x7f]|^ | $")
"""A control character, or a blank at either end, which the header of a request cannot hold."""


def read_api_key() -> str | None:
    """Return the API key from the environment; None if there is none.

    Other users of the computer can list the flags of a command with ps, but not its environment.

    Raises:
        ConfigError: the key is empty, or no request can send it.
    """
    key = os.environ.get(API_KEY)
    if key == "":
        raise ConfigError(f"The environment variable {API_KEY} is empty. Set a key, or unset it.")
    if key is not None:
        check_sendable(key, f"The environment variable {API_KEY}")
    return key


def check_sendable(key: str, source: str) -> None:
    """Check that the header of a request can hold a key.

    Args:
        source: where the key comes from, for the message, which does not show the key.

    Raises:
        ConfigError: no header can hold the key, so the server would refuse all requests.
    """
    if (found := UNSENDABLE.search(key)) is not None:
        character = {"\n": "a line break", "\r": "a carriage return", " ": "a blank"}.get(
            found[0], "a control character"
        )
        place = "at its end" if found.end() == len(key) else f"as character {found.start() + 1}"
        raise ConfigError(
            f"{source}: the key has {character} {place}, which no request can send. Remove it."
        )


def parse_model_folders(models: Sequence[str]) -> dict[str, Path]:
    """Parse arguments such as NAME=DIR to the folders by the names under which they are served.

    A model whose argument is only DIR has the name of its folder.

    Raises:
        ConfigError: two models have the same name, one has no folder, or a name contains a slash or
            is not UTF-8.
    """
    folders: dict[str, Path] = {}
    for text in models:
        name, path = _name_and_folder(text)
        if not name or path is None:
            raise ConfigError(f"'{text}': give a folder, or NAME=DIR.")
        if "/" in name:
            raise ConfigError(
                f"'{text}': the name '{name}' has a '/', and the model would answer below "
                f"/models/{name}, which is another route. Choose a name without it, such as "
                f"{name.replace('/', '-')}={path}."
            )
        if not _is_utf8(name):
            raise ConfigError(
                f"'{text}': the name '{name}' is not UTF-8, so no request could name the model. "
                f"Choose a name: films={path}."
            )
        if name in folders:
            raise ConfigError(
                f"Two models have the name '{name}': {folders[name]} and {path}. Choose names: "
                f"{name}-1={folders[name]} {name}-2={path}."
            )
        folders[name] = path
    return folders


def _name_and_folder(text: str) -> tuple[str, Path | None]:
    """Read NAME=DIR or DIR; the name of an existing folder may contain an equals sign."""
    name, equals, directory = text.partition("=")
    if equals and not Path(text).is_dir():
        return name, Path(directory) if directory else None
    return Path(text).resolve().name, Path(text) if text else None


def _is_utf8(text: str) -> bool:
    """Return whether a text of the command line has only bytes of UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:  # other bytes are half surrogates in Python
        return False
    return True

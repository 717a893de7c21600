"""Command lines that a command suggests to type next."""

from bertsmith.system.own_modules import imported_modules


def with_import_flags(command: str) -> str:
    """Add `--import` to a command line for each module of the user that this process imported.

    >>> with_import_flags("bertsmith predict runs/films")
    'bertsmith predict runs/films'
    """
    return " ".join([command, *(f"--import {module}" for module in imported_modules())])

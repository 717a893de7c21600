"""The demo's folder: it takes the place of an earlier demo's, and of nothing else.

A run is built where it will stay, so that every path written into it is right. The earlier run
waits beside it meanwhile, and comes back if the new one fails.
"""

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from bertsmith.errors import ConfigError
from bertsmith.system.files import locked, write_error, write_json

RESULT_NAME = "demo.json"
COMMAND = "demo"


@contextlib.contextmanager
def fresh_folder(out: Path) -> Iterator[None]:
    """Give an empty `out`; if the block ends with an error, what stood there is there again.

    Raises:
        ConfigError: something other than a demo stands at `out`.
        InputError: the folder cannot be written.
    """
    previous = out.with_name(f".{out.name}.previous")
    with locked(out):  # refuses one that another process works in, before it is moved
        pass
    _restore(out, previous)  # left by a demo that was killed
    check_out(out)
    try:
        if out.exists():
            out.rename(previous)
        out.mkdir(parents=True)
        write_json(out / RESULT_NAME, {"command": COMMAND, "is_complete": False})
    except OSError as error:
        raise write_error(out, error) from error
    try:
        with locked(out):
            yield
    except BaseException:
        shutil.rmtree(out)
        _restore(out, previous)
        raise
    shutil.rmtree(previous, ignore_errors=True)


def check_out(out: Path) -> None:
    """Refuse a place where something else than a demo stands."""
    if not out.exists() or is_demo(out):
        return
    if not out.is_dir():
        raise ConfigError(f"{out}: a file, not a folder. Choose another --out.")
    if any(out.iterdir()):
        raise ConfigError(
            f"{out}: holds other things than a demo, and would be replaced. Choose another --out."
        )


def is_demo(out: Path) -> bool:
    """Whether a demo wrote this folder, complete or not."""
    try:
        facts = json.loads((out / RESULT_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(facts, dict) and facts.get("command") == COMMAND


def _restore(out: Path, previous: Path) -> None:
    """Put the earlier demo back in its place, if it waits beside it."""
    if not is_demo(previous):
        return
    if is_demo(out):
        shutil.rmtree(out)
    if not out.exists():
        previous.rename(out)

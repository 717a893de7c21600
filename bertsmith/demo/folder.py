"""The demo's folder: a new demo replaces an earlier one there, and nothing else.

A demo is built where it will stay, so that every path written into it is right. The earlier one
waits in a folder of its own meanwhile, and comes back if the new one fails.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertsmith.errors import ConfigError
from bertsmith.system.files import hold_folder, write_json, writing

COMMAND = "demo"
TEXT, RESULT, PAGE = "documentation.txt", "demo.json", "report.html"
PARTS = (RESULT, TEXT, "question", "tokenizer", "corpus", "pretrained", "classifier", PAGE)
"""What a demo consists of; all else in its folder is the user's."""
EARLIER = "earlier-demo"


@contextmanager
def fresh_folder(out: Path) -> Iterator[None]:
    """Give a folder without a demo; if the block ends with an error, the earlier one is back.

    Raises:
        ConfigError: something other than a demo stands at `out`, or another process works there.
        InputError: the folder cannot be written.
    """
    with hold_folder(out, lambda: check_out(out)):
        earlier = out / EARLIER
        with writing(out):
            if earlier.exists():  # left by a demo that was killed
                _move_parts(earlier, out)
            earlier.mkdir(exist_ok=True)
            _move_parts(out, earlier)
        try:
            write_json(out / RESULT, {"command": COMMAND, "is_complete": False})
            yield
        except BaseException:
            _move_parts(earlier, out)
            earlier.rmdir()
            raise
        shutil.rmtree(earlier)


def check_out(out: Path) -> None:
    """Refuse a folder that holds something, but no demo."""
    if any(out.iterdir()) and not (is_demo(out) or (out / EARLIER).exists()):
        raise ConfigError(
            f"{out}: holds other things than a demo, and would be replaced. Choose another --out."
        )


def is_demo(out: Path) -> bool:
    """Return whether a demo wrote this folder, complete or not."""
    try:
        facts = json.loads((out / RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(facts, dict) and facts.get("command") == COMMAND


def _move_parts(source: Path, target: Path) -> None:
    """Put a demo's parts into another folder, in place of those there."""
    for name in PARTS:
        if (target / name).is_dir():
            shutil.rmtree(target / name)
        (target / name).unlink(missing_ok=True)
        if (source / name).exists():
            (source / name).rename(target / name)

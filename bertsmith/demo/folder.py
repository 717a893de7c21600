"""The demo's folder, in which a new demo replaces an earlier demo and nothing else.

A demo is built in its final folder, because its files contain paths of the folder. The earlier demo
is kept in a folder inside until the new demo is complete, and is moved back if the new demo fails.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertsmith.errors import ConfigError
from bertsmith.system.files import write_json
from bertsmith.system.locks import hold_folder
from bertsmith.system.write_error import writing

COMMAND = "demo"
TEXT, RESULT, PAGE = "documentation.txt", "demo.json", "report.html"
PARTS = (RESULT, TEXT, "question", "tokenizer", "corpus", "pretrained", "classifier", PAGE)
"""Names of the files and folders of a demo; all others in its folder are the user's."""
EARLIER = "earlier-demo"


@contextmanager
def fresh_folder(out: Path) -> Iterator[None]:
    """Lock the folder of a demo, and set an earlier demo aside while the block runs.

    After the block, the earlier demo is deleted, or restored if the block raised an error.

    Raises:
        ConfigError: `out` holds something other than a demo, or another process works there.
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
    """Raise ConfigError if a folder is not empty and holds no demo."""
    if any(out.iterdir()) and not (is_demo(out) or (out / EARLIER).exists()):
        raise ConfigError(
            f"{out}: the folder is not empty, and holds no demo. Choose another --out."
        )


def is_demo(out: Path) -> bool:
    """Return whether a demo wrote this folder, complete or not."""
    try:
        facts = json.loads((out / RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(facts, dict) and facts.get("command") == COMMAND


def _move_parts(source: Path, target: Path) -> None:
    """Move a demo's parts into another folder, where they replace the parts of an earlier demo."""
    for name in PARTS:
        if (target / name).is_dir():
            shutil.rmtree(target / name)
        (target / name).unlink(missing_ok=True)
        if (source / name).exists():
            (source / name).rename(target / name)

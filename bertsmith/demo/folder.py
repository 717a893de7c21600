"""The demo's folder, in which a new demo replaces an earlier demo and nothing else.

A demo is built in its final folder, because its files contain paths of the folder. The earlier demo
is kept in a folder inside until the new demo is complete, and is moved back if the new demo fails.
The files of both are told apart by the state of demo.json, even after a demo was killed:

- complete: the files beside demo.json are of the new demo, and the earlier one can be removed;
- incomplete: the files beside demo.json are of the new demo, and the earlier one is whole in its
  folder;
- missing: all files are of the earlier demo, which was being moved to its folder or back.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bertsmith.errors import ConfigError, option
from bertsmith.system.files import write_json
from bertsmith.system.json_text import parse_json
from bertsmith.system.locks import hold_folder
from bertsmith.system.write_error import naming_write_errors

COMMAND = "demo"
TEXT, RESULT, PAGE = "documentation.txt", "demo.json", "report.html"
PARTS = (TEXT, "question", "tokenizer", "corpus", "pretrained", "classifier", PAGE)
"""Names of the files and folders of a demo beside demo.json; all others in its folder are the
user's."""
EARLIER = "earlier-demo"


@contextmanager
def fresh_folder(out: Path) -> Iterator[None]:
    """Lock the folder of a demo, and set an earlier demo aside while the block runs.

    The block ends by writing a complete demo.json. Then the earlier demo is deleted; it is restored
    if the block raised an error.

    Raises:
        ConfigError: `out` holds something other than a demo, or another process works there.
        InputError: the folder cannot be written.
    """
    with hold_folder(out, lambda: check_out(out)):
        earlier = out / EARLIER
        with naming_write_errors(out):
            if earlier.exists():
                _recover(out)
            earlier.mkdir()
            _set_aside(out)
        try:
            write_json(out / RESULT, {"command": COMMAND, "is_complete": False})
            yield
        except BaseException:
            _restore(out)
            raise
        shutil.rmtree(earlier)


def check_out(out: Path) -> None:
    """Raise ConfigError if a folder is not empty and holds no demo."""
    if any(out.iterdir()) and not (is_demo(out) or (out / EARLIER).exists()):
        raise ConfigError(
            f"{out}: the folder is not empty, and holds no demo. Choose another {option('out')}."
        )


def is_demo(out: Path) -> bool:
    """Return whether a demo wrote this folder, complete or not."""
    return _read_result(out).get("command") == COMMAND


def _read_result(out: Path) -> dict[str, Any]:
    """Return the content of demo.json; empty if there is none, or no such file of a demo."""
    try:
        facts = parse_json((out / RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _recover(out: Path) -> None:
    """Leave only one demo in a folder in which a demo was killed."""
    if _read_result(out).get("is_complete"):
        shutil.rmtree(out / EARLIER)
    else:
        _restore(out)


def _set_aside(out: Path) -> None:
    """Move a demo into `EARLIER` while a new demo is built; demo.json first."""
    for name in (RESULT, *PARTS):
        if (out / name).exists():
            (out / name).rename(out / EARLIER / name)


def _restore(out: Path) -> None:
    """Remove an incomplete demo and move the earlier one back; demo.json last in both."""
    if (out / RESULT).exists():
        for name in (*PARTS, RESULT):
            _remove(out / name)
    for name in (*PARTS, RESULT):
        if (out / EARLIER / name).exists():
            (out / EARLIER / name).rename(out / name)
    (out / EARLIER).rmdir()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

"""The demo's folder and its parts; it replaces an earlier demo, and nothing else.

A run is built where it will stay, so that every path written into it is right. The earlier run
waits beside it meanwhile, and comes back if the new one fails.
"""

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertsmith.errors import ConfigError
from bertsmith.system.files import locked, write_error, write_json

RESULT_NAME = "demo.json"
COMMAND = "demo"


@dataclass(frozen=True)
class Places:
    """The folders and files of a demo."""

    out: Path

    @property
    def text(self) -> Path:
        return self.out / "documentation.txt"

    @property
    def tokenizer(self) -> Path:
        return self.out / "tokenizer"

    @property
    def corpus(self) -> Path:
        return self.out / "corpus"

    @property
    def pretrained(self) -> Path:
        return self.out / "pretrained"

    @property
    def classifier(self) -> Path:
        """The pre-trained model after fine-tuning on the first draw."""
        return self.out / "classifier"

    @property
    def dev(self) -> Path:
        """Labelled paragraphs that choose the best weights."""
        return self.out / "question" / "dev.csv"

    @property
    def test(self) -> Path:
        """Labelled paragraphs to score on."""
        return self.out / "question" / "test.csv"

    def train(self, draw: int) -> Path:
        return self.out / "question" / ("train.csv" if draw == 0 else f"train-{draw + 1}.csv")


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
    is_new = not out.exists()
    try:
        try:
            _remove(previous)
            if not is_new:
                out.rename(previous)
            out.mkdir(parents=True)
            write_json(out / RESULT_NAME, {"command": COMMAND, "is_complete": False})
        except OSError as error:
            raise write_error(out, error) from error
        with locked(out):
            yield
    except BaseException:
        if is_new or previous.exists():
            _remove(out)
        _restore(out, previous)
        raise
    _finish(out, previous)


def check_out(out: Path) -> None:
    if not out.exists() or is_demo(out):
        return
    if not out.is_dir():
        raise ConfigError(f"{out}: a file, not a folder. Choose another --out.")
    if any(out.iterdir()):
        raise ConfigError(
            f"{out}: holds other things than a demo, and would be replaced. Choose another --out."
        )


def is_demo(out: Path) -> bool:
    """Return whether a demo wrote this folder, complete or not."""
    return _facts(out).get("command") == COMMAND


def _facts(out: Path) -> dict[str, Any]:
    try:
        facts = json.loads((out / RESULT_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _restore(out: Path, previous: Path) -> None:
    """Put the earlier demo back in its place, if it waits beside an unfinished one."""
    if not is_demo(previous):
        return
    if _facts(out).get("is_complete"):
        _finish(out, previous)
        return
    if is_demo(out):
        _remove(out)
    with contextlib.suppress(OSError):  # an empty folder, which a full disk left
        out.rmdir()
    if not out.exists():
        previous.rename(out)


def _finish(out: Path, previous: Path) -> None:
    """Remove the earlier demo, but keep what somebody has put there."""
    for path in previous.glob("*"):
        if not (out / path.name).exists():
            path.rename(out / path.name)
    _remove(previous)


def _remove(folder: Path) -> None:
    """Remove a folder, under another name, so that nobody finds half of it."""
    doomed = folder.with_name(f".{folder.name.strip('.')}.removed")
    shutil.rmtree(doomed, ignore_errors=True)
    if folder.exists():
        folder.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)

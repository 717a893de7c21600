"""Output files of a command: checked and locked before it begins, so that no work is lost."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from bertsmith.errors import ConfigError
from bertsmith.system.locks import lock_path, make_folder
from bertsmith.system.paths import is_within
from bertsmith.system.write_error import naming_write_errors

PAGE_ENDINGS = (".html", ".htm")


@contextlib.contextmanager
def lock_outputs(
    outputs: Mapping[str, Path | None], input_file: Path | None, model: Path | None = None
) -> Iterator[None]:
    """Lock the output files for the block, and refuse one that is the input or a model's file.

    The lock is on a file beside the output, since the output itself is replaced. If a killed
    process left this file, it is no longer locked, so it is used again.

    Args:
        outputs: paths by flag; if its name ends in `page`, the output is an HTML page.
        input_file: the file that the command reads.
        model: the folder of the model that the command uses; its files are not replaced.

    Raises:
        ConfigError: an output is the input or a file in the model's folder, a page has another
            ending, or another process writes an output; names the flag.
    """
    _check_outputs(outputs, input_file, model)
    with contextlib.ExitStack() as stack:
        for flag, path in outputs.items():
            if path is None or (path.exists() and not path.is_file()):
                continue  # no output, or a pipe or device, which several processes may write to
            target = Path(os.path.realpath(path))
            make_folder(stack, target.parent)
            with naming_write_errors(path):
                lock = target.with_name(f".{target.name}.lock")
                is_locked = lock_path(stack, lock, os.O_RDWR | os.O_CREAT)
            if not is_locked:
                raise ConfigError(
                    f"{flag} {path}: another process is writing this file. Wait until it ends, or "
                    "choose another file."
                )
        yield


def _check_outputs(
    outputs: Mapping[str, Path | None], input_file: Path | None, model: Path | None
) -> None:
    """Refuse an output that is the input, another output, a folder, or a file of the model.

    Raises:
        ConfigError: names the flag.
    """
    other_files = {"the input": input_file}
    for flag, path in outputs.items():
        if path is not None and path.is_dir():
            raise ConfigError(f"{flag} {path} is a folder. Name a file in it.")
        for use, other in other_files.items():
            if path is not None and other is not None and _is_same_file(path, other):
                raise ConfigError(f"{flag} {path} is also {use}. Choose another file.")
        if path is not None and (path.is_file() or not path.exists()):  # no pipe or device
            if flag.endswith("page") and path.suffix.lower() not in PAGE_ENDINGS:
                raise ConfigError(
                    f"{flag}: found '{path}'; the name must end in {' or '.join(PAGE_ENDINGS)}."
                )
            if path.is_file() and model is not None and model.is_dir() and is_within(path, model):
                raise ConfigError(
                    f"{flag} {path} is a file in the folder of the model, {model}, and would be "
                    "replaced. Choose another file."
                )
        other_files[f"the file of {flag}"] = path


def _is_same_file(one: Path, other: Path) -> bool:
    """Return whether both paths lead to one regular file, which may not exist yet."""
    if one.exists() and other.exists():
        return one.is_file() and one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)

"""Checksums of the small files of a folder, in the format of `sha256sum`.

Weights are not among them, since bertsmith writes a checksum into model.safetensors itself. A file
that differs causes a warning but is used, since users may edit config.json.
"""

import contextlib
import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from bertsmith.errors import warn_once
from bertsmith.system.files import atomic_write, sha256_file
from bertsmith.system.small_files import SmallFiles

SUMS_FILE = "SHA256SUMS"
LINE_PATTERN = re.compile(r"([0-9a-fA-F]{64}) [ *](.+)")
SUMMED_FILES = frozenset(
    {
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.txt",
        "vocab.json",
        "merges.txt",
        "spiece.model",
        "modules.json",
        "sentence_bert_config.json",
        "config_sentence_transformers.json",
        "1_Pooling/config.json",
    }
)
"""Files that, besides weights, determine what a model computes. For other files that `SUMS_FILE`
lists, only their existence is checked, not their content."""


@contextlib.contextmanager
def recording_checksums(directory: Path, *names: str) -> Iterator[None]:
    """Record checksums of the files that the block writes, if it ends without an error.

    The old checksums are removed before the block. So if the process is killed while it writes, no
    wrong checksums are left.
    """
    recorded, _ = _read_sums(SmallFiles(directory))
    sums = {name: digest for name, digest in recorded.items() if name not in names}
    if sums:
        _write(directory, sums)
    else:
        (directory / SUMS_FILE).unlink(missing_ok=True)
    yield
    written = [name for name in names if (directory / name).is_file()]
    # Read again, by a new SmallFiles, which keeps what it has read: the block may have added sums.
    recorded, _ = _read_sums(SmallFiles(directory))
    _write(directory, recorded | {name: sha256_file(directory / name) for name in written})


def has_checksum(files: SmallFiles, name: str) -> bool:
    """Return whether the folder has a sum of this file."""
    return name in _read_sums(files)[0]


def compare_checksums(files: SmallFiles, only: str | None = None) -> None:
    """Warn about files that differ from their sums or are missing, and about malformed lines.

    The warning is given once for one content of the files.

    Args:
        only: name of a file; if given, the warning is about that file alone.
    """
    sums, malformed_lines = _read_sums(files)
    if only is not None:
        sums = {name: sums[name] for name in sums if name == only}
        malformed_lines = []
    actual: dict[str, str] = {}
    problems = [f"line {number} of {SUMS_FILE} is not a checksum" for number in malformed_lines]
    for name, digest in sums.items():
        is_there = files.has(name)
        if name in SUMMED_FILES and is_there:
            actual[name] = hashlib.sha256(files.read(name)).hexdigest()
        if not is_there:
            problems.append(f"{name} is missing")
        elif actual.get(name, digest) != digest:
            problems.append(f"{name} differs from what was written")
    if problems:
        lines = "its line" if len(problems) == 1 else "their lines"
        warn_once(
            f"{files.directory}: {', '.join(problems)} (by {SUMS_FILE}): damaged, or "
            f"changed by you or another program. If so, remove "
            f"{lines} from {SUMS_FILE}; if not, copy the folder again.",
            state=(files.directory.resolve(), files.read(SUMS_FILE), *actual.values()),
        )


def _read_sums(files: SmallFiles) -> tuple[dict[str, str], list[int]]:
    """Read the sums by file name, and the numbers of lines that are not checksums."""
    try:
        content = files.read(SUMS_FILE)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return {}, []
    sums = {}
    malformed_lines = []
    for number, ended_line in enumerate(content.decode("utf-8", "replace").split("\n"), start=1):
        line = ended_line.removesuffix("\r")  # as Git writes on Windows
        # Only "# " begins a comment: one wrong bit turns the digit 3 at the start of a sum into #.
        is_comment = line == "#" or line.startswith("# ")
        if match := LINE_PATTERN.fullmatch(line):
            sums[match[2].removeprefix("./")] = match[1].lower()
        elif line and not is_comment:
            malformed_lines.append(number)
    if not content:
        malformed_lines.append(1)
    return sums, malformed_lines


def _write(directory: Path, sums: Mapping[str, str]) -> None:
    with atomic_write(directory / SUMS_FILE, "w") as file:
        file.writelines(f"{sums[name]}  {name}\n" for name in sorted(sums))

"""Find the files that a user's paths name, with their formats and compressions.

Paths may be files, folders (searched recursively) or globs. The files are sorted, so the order of
the arguments does not affect the result.
"""

import glob
import itertools
import os
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from bertsmith.data.remote_files import RemoteFile, find_remote_files, is_url
from bertsmith.errors import InputError, read_error
from bertsmith.system.paths import shell_path

SourcePath = Path | RemoteFile
"""A local path, or a file in an object store."""
Format = Literal["txt", "jsonl", "csv", "tsv", "parquet"]
"""Formats of files of documents, for tokenizers and corpora; files of examples have more."""
Compression = Literal["gz", "xz", "zst"]

FORMATS: tuple[Format, ...] = get_args(Format)
COMPRESSIONS: tuple[Compression, ...] = get_args(Compression)
ALLOWED_ENDINGS = "Allowed: .txt, .jsonl, .csv, .tsv, .parquet, each also as .gz, .xz or .zst."

UNPACKED_BY = {
    "bz2": "bunzip2 -k", "zip": "unzip", "7z": "7z x", "rar": "unrar x", "tar": "tar -xf",
    "tgz": "tar -xf", "lz4": "lz4 -d", "lzma": "unlzma -k", "br": "brotli -d", "z": "uncompress -k",
}  # fmt: skip
"""Commands for endings of compressed files and archives that are not read."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file of documents, with its format and compression."""

    path: SourcePath
    format: Format
    compression: Compression | None

    @classmethod
    def from_name(cls, path: SourcePath) -> "Source | None":
        """Parse format and compression from a file's name; None if unknown."""
        format_ = next((name for name in FORMATS if name == ending_of(path)), None)
        return cls(path, format_, compression_of(path)) if format_ else None


def compression_of(path: SourcePath) -> Compression | None:
    """Return the compression by the ending of a file's name; None if there is none."""
    ending = path.name.lower().rpartition(".")[2]
    return next((name for name in COMPRESSIONS if name == ending), None)


def ending_of(path: SourcePath) -> str:
    """Return the ending of a file's name in lower case, without that of its compression."""
    name = path.name.lower()
    if compression := compression_of(path):
        name = name.removesuffix(f".{compression}")
    return name.rpartition(".")[2] if "." in name else ""


def ending_in_words(path: Path) -> str:
    """Describe the ending of a file's name, for messages."""
    return f"its name ends in {path.suffix}" if path.suffix else "its name has no ending"


def check_not_packed(path: Path) -> None:
    """Refuse an archive, or a file with an unsupported compression, by its name."""
    ending = ending_of(path)
    if command := UNPACKED_BY.get(ending):
        raise InputError(
            f"{path}: a compressed file or archive of a kind that is not read (.{ending}). Unpack "
            f"it ({command} {shell_path(path)}), and give its content. Compressed files may be "
            ".gz, .xz or .zst."
        )


def find_sources(paths: Iterable[str | Path]) -> tuple[list[Source], Counter[str]]:
    """Find the files that `paths` name, sorted, each once.

    The counter has the number of files that are not read: `unsupported_files` in folders and globs,
    which also counts vocabularies of tokenizers, and `repeated_files`, files that another path or
    link names as well. Hidden files in folders are ignored.

    Raises:
        InputError: a path does not exist, or a folder, glob or file has nothing to read.
    """
    left_aside: Counter[str] = Counter()
    all_sources: list[Source] = []
    for path in paths:
        sources, unsupported = _expand(str(path))
        all_sources += sources
        left_aside["unsupported_files"] += unsupported
    all_sources.sort(key=lambda source: source.path.as_posix())
    unique: dict[Hashable, Source] = {}
    for source in all_sources:
        unique.setdefault(identity(source), source)
    left_aside["repeated_files"] = len(all_sources) - len(unique)
    return list(unique.values()), +left_aside  # + leaves out counts of 0


def _expand(name: str) -> tuple[list[Source], int]:
    """Find the files that one name stands for, and count those of unsupported formats."""
    if not name:
        raise InputError("A file's name is empty. Is the shell variable set?")
    files: Sequence[SourcePath]
    path = Path(name)
    if is_url(name):
        files = find_remote_files(name)
        if not files:
            raise InputError(f"{name}: no file found. Check the address. {ALLOWED_ENDINGS}")
    elif path.is_dir():
        files = list(_walk(path))
    elif path.exists():
        source = Source.from_name(path)
        if source is None:
            check_not_packed(path)
            raise InputError(f"{path}: the name's ending is not known. {ALLOWED_ENDINGS}")
        return [source], 0
    elif glob.has_magic(name):
        matches = [Path(match) for match in glob.glob(name, recursive=True)]  # noqa: PTH207
        path_groups = (_walk(match) if match.is_dir() else [match] for match in sorted(matches))
        files = list(dict.fromkeys(itertools.chain.from_iterable(path_groups)))
    else:
        raise InputError(f"{path}: no such file or folder. Check the spelling.")
    texts = [file for file in files if not _is_vocabulary(file)]
    sources = [source for file in texts if (source := Source.from_name(file))]
    if not sources:
        raise _nothing_readable(name, files)
    return sources, len(files) - len(sources)


def _walk(folder: Path) -> Iterator[Path]:
    """Yield all files in a folder and its subfolders, except hidden ones, each folder once."""

    def refuse(error: OSError) -> None:
        raise read_error(InputError, error.filename, error) from error

    seen = {os.path.realpath(folder)}  # a link may lead back
    for parent, folders, files in os.walk(folder, onerror=refuse, followlinks=True):
        real_paths = {name: os.path.realpath(Path(parent, name)) for name in sorted(folders)}
        # os.walk goes on with the folders that this list still has.
        folders[:] = [
            name
            for name, real_path in real_paths.items()
            if not name.startswith(".") and real_path not in seen
        ]
        seen.update(real_paths[name] for name in folders)
        yield from (Path(parent, name) for name in files if not name.startswith("."))


def _is_vocabulary(file: SourcePath) -> bool:
    """Return whether a file in a folder is a vocabulary, and so not one of the texts."""
    if not isinstance(file, Path):
        return False
    is_list = file.name in ("vocab.txt", "merges.txt")
    return is_list and file.with_name("tokenizer_config.json").exists()


def _nothing_readable(name: str, files: Sequence[SourcePath]) -> InputError:
    """Build the error for a folder or pattern whose files have no supported format."""
    if not files:
        return InputError(f"{name}: no file found. Check the spelling. {ALLOWED_ENDINGS}")
    endings = Counter(file.suffix.lower() or "no ending" for file in files)
    ending_counts = ", ".join(f"{count} × {ending}" for ending, count in endings.most_common(5))
    return InputError(f"{name}: no file that can be read, found {ending_counts}. {ALLOWED_ENDINGS}")


def identity(source: Source) -> Hashable:
    """Return a local file's device and inode, which all its names share; a remote file's address.

    Raises:
        InputError: the file cannot be read.
    """
    if isinstance(source.path, RemoteFile):
        return source.path
    try:
        status = source.path.stat()
    except OSError as error:
        raise read_error(InputError, source.path, error) from error
    return status.st_dev, status.st_ino

"""The plan of a corpus that several processes build together: what must be equal in all of them.

Each process encodes some work units, that is, parts of the texts, into one folder that all of them
share. It makes the plan from its own command line and texts, and compares it with the plan that
another process left in this folder. So a difference is reported before anything is encoded.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from itertools import starmap
from pathlib import Path
from typing import Any

from bertsmith._version import __version__
from bertsmith.data.reading import format_reason
from bertsmith.data.settings import CorpusSettings
from bertsmith.errors import CheckpointError, CorpusError, option, read_error
from bertsmith.system.json_text import parse_json
from bertsmith.system.paths import shell_path
from bertsmith.system.small_files import read_small_file
from bertsmith.system.temporary_folder import temporary_folder
from bertsmith.system.write_error import naming_write_errors

PLAN_NAME = "plan.json"


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """Texts and settings of a build, and its division into work units and shards."""

    version: str
    """Version of bertsmith."""
    tokenizer: str
    """Fingerprint of the tokenizer: a hash of all that decides its ids."""
    settings: dict[str, Any]
    """The fields of `CorpusSettings`."""
    texts: list[str]
    """Files, folders and patterns as named on the command line."""
    files: list[tuple[str, int]]
    """Path and size in bytes of each file."""
    left_aside: dict[str, int]
    """Number of files that are not read, by reason, such as `unsupported_files`."""
    units: int
    """Number of work units, which messages call parts."""
    shards: int
    """Number of jobs that each encode a share of the units (`--shard 3/16` is one of 16 jobs).
    Elsewhere a shard is a file of a corpus."""

    @property
    def digest(self) -> str:
        """The SHA-256 of the plan, which each encoded unit stores to show its plan."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()

    @property
    def corpus_settings(self) -> CorpusSettings:
        return CorpusSettings(**self.settings)

    def enter(self, folder: Path) -> None:
        """Write the plan into the folder of encoded units, or compare it with the plan there.

        Raises:
            CorpusError: the plan in the folder differs; the message says how.
        """
        path = folder / PLAN_NAME
        if not path.exists():
            # Several machines may write the plan at once, each first into a temporary folder of its
            # own.
            with naming_write_errors(path), temporary_folder(folder) as temporary:
                copy = temporary / PLAN_NAME
                copy.write_text(json.dumps(asdict(self)), encoding="utf-8")
                copy.replace(path)
        # If several processes wrote a plan at once, the one that was written last stays.
        difference = self._difference(BuildPlan.read(folder))
        if difference:
            raise CorpusError(
                f"{folder}: holds parts of another build: {difference}. Give the same texts, "
                f"tokenizer and options to all of them, choose another {option('out')}, or remove "
                f"that folder (rm -r {shell_path(folder)}) to begin anew."
            )

    @classmethod
    def read(cls, folder: Path) -> "BuildPlan":
        """Read the plan of a folder of units.

        Raises:
            CorpusError: there is no plan, or it is damaged.
        """
        from pydantic import TypeAdapter, ValidationError

        path = folder / PLAN_NAME
        try:
            plan = TypeAdapter(cls).validate_python(parse_json(read_small_file(path)))
            # The plan has the settings as a plain dict, whose values were not checked yet.
            TypeAdapter(CorpusSettings).validate_python(plan.settings)
            if plan.shards < 1:
                raise ValueError(f"shards: found {plan.shards}; allowed is 1 or more")
        except OSError as error:
            raise read_error(CorpusError, path, error) from error
        except CheckpointError as error:  # not the file itself, such as a pointer of Git LFS
            raise CorpusError(error.message) from error
        except ValueError as error:
            cause = str(error)
            if isinstance(error, ValidationError):
                first = error.errors()[0]
                cause = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise CorpusError(
                f"{path}: damaged ({cause}). Remove {folder}, and build the corpus again."
            ) from error
        return plan

    def _difference(self, other: "BuildPlan") -> str:
        """Say how the plan in the folder, `other`, differs from this one; empty if it does not.

        In the text, "it" is the build that wrote the plan in the folder.
        """
        if other.version != self.version:
            return f"bertsmith {other.version} began it, and this is {self.version}"
        if other.tokenizer != self.tokenizer:
            return (
                f"its tokenizer has the fingerprint {other.tokenizer[:12]}, and this one "
                f"{self.tokenizer[:12]}"
            )
        if other.shards != self.shards:
            old_shards, new_shards = _count_shards(other.shards), _count_shards(self.shards)
            return f"it has {old_shards}, and this build has {new_shards}"
        for name, value in self.settings.items():
            if other.settings.get(name) != value:
                old_value = other.settings.get(name)
                return f"it has {option(name, old_value)}, and this build has {option(name, value)}"
        if other.files != self.files:
            return _difference_of_files(dict(other.files), dict(self.files))
        if other.texts != self.texts:
            return (
                f"it names the texts {', '.join(other.texts[:3])}, and this build names "
                f"{', '.join(self.texts[:3])}"
            )
        if other.left_aside != self.left_aside:
            old_files, new_files = map(_describe_left_aside, (other.left_aside, self.left_aside))
            return f"it left aside {old_files}, and this build leaves aside {new_files}"
        # Of all fields, only `units` is left.
        return "" if other == self else "its list of parts differs"


def make_plan(
    tokenizer: str,
    settings: CorpusSettings,
    texts: list[str],
    files: list[tuple[str, int]],
    left_aside: dict[str, int],
    *,
    units: int,
    shards: int,
) -> BuildPlan:
    return BuildPlan(
        version=__version__,
        tokenizer=tokenizer,
        settings=asdict(settings),
        texts=texts,
        files=files,
        left_aside=left_aside,
        units=units,
        shards=shards,
    )


def _describe_left_aside(counts: dict[str, int]) -> str:
    return ", ".join(starmap(format_reason, sorted(counts.items()))) or "no file"


def _count_shards(number: int) -> str:
    return "one shard" if number == 1 else f"{number:,} shards"


def _difference_of_files(old_files: dict[str, int], new_files: dict[str, int]) -> str:
    """Describe the first difference of two lists of files, given as their sizes by path.

    In the text, "it" is the build that read the old files.
    """
    for path in sorted({*old_files, *new_files}):
        old_bytes, new_bytes = old_files.get(path), new_files.get(path)
        if new_bytes is None:
            return f"it reads {path}, which is not among these texts"
        if old_bytes is None:
            return f"it does not read {path}, which is among these texts"
        if old_bytes != new_bytes:
            return f"{path} had {old_bytes:,} bytes and now has {new_bytes:,}"
    return "its list of texts differs"

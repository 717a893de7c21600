"""Read and write manifest.json, which describes a corpus: its counts, settings and checksums.

A corpus is a folder of token ids from which models are pre-trained; its large files are called
shards. Counts can be shown without opening a shard. Checksums show a shard that was changed,
truncated or mixed up with another corpus before anything is trained on it (`Corpus.open`).
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from bertsmith.errors import CheckpointError, CorpusError, read_error
from bertsmith.system.bounds import LARGEST
from bertsmith.system.files import write_json
from bertsmith.system.json_text import parse_json
from bertsmith.system.small_files import read_small_file

Split = Literal["train", "held_out"]
"""The two sets of a corpus's documents: for training, and held out from it for evaluation."""
SPLITS: tuple[Split, ...] = ("train", "held_out")

MANIFEST_NAME = "manifest.json"
CORPUS_FORMAT = "bertsmith corpus"
FORMAT_VERSION = 1
SHARD_NAME = re.compile(rf"({'|'.join(SPLITS)})-\d{{5,}}\.(ids|sentences|documents)\.npy")
"""Names of the files of shards."""
NEXT_STEP = "Build the corpus again (bertsmith corpus build), or copy the folder again."
"""Advice in an error about a damaged corpus."""


@dataclass(frozen=True, slots=True)
class ShardFile:
    """One .npy file of a shard."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard, that is, some documents of a split in three files of their own.

    The starts of sentences and documents in these files are counted from the shard's beginning.
    """

    documents: int
    sentences: int
    tokens: int
    token_ids: ShardFile
    sentence_starts: ShardFile
    document_starts: ShardFile

    @property
    def files(self) -> tuple[ShardFile, ShardFile, ShardFile]:
        """Files of token ids, sentence starts and document starts."""
        return self.token_ids, self.sentence_starts, self.document_starts


@dataclass(frozen=True, slots=True)
class SplitManifest:
    """Counts of one split, and its shards, in order.

    `sentence_lengths[i]` counts the sentences of `2**i` to `2**(i + 1) - 1` tokens, and
    `document_lengths[i]` the documents of as many tokens.
    """

    documents: int
    sentences: int
    tokens: int
    unknown_tokens: int
    characters: int
    sentence_lengths: tuple[int, ...]
    document_lengths: tuple[int, ...]
    shards: tuple[Shard, ...]


@dataclass(frozen=True, slots=True)
class SourcesManifest:
    """Counts of the input.

    `skipped` counts by reason the files, rows and documents that gave no text, and `cut` the long
    documents and lines that were divided, of which nothing is lost. `html_tags` counts the tags
    that were left in the text.
    """

    files: int
    bytes: int
    documents: int
    skipped: Mapping[str, int]
    cut: Mapping[str, int]
    html_tags: int = 0


@dataclass(frozen=True, slots=True)
class TokenizerManifest:
    """The tokenizer that made the ids; its fingerprint is a hash of all that decides its ids."""

    fingerprint: str
    vocab_size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """Content of manifest.json without format and version, which `read` checks."""

    tokenizer: TokenizerManifest
    splits: Mapping[Split, SplitManifest]
    sources: SourcesManifest
    settings: Mapping[str, Any]

    def write(self, directory: Path) -> None:
        """Write manifest.json into a corpus folder.

        Raises:
            InputError: the file cannot be written.
        """
        head = {"format": CORPUS_FORMAT, "format_version": FORMAT_VERSION}
        write_json(directory / MANIFEST_NAME, head | asdict(self))

    def summary(self) -> dict[str, Any]:
        """Return the manifest as plain values, for reports.

        Each split has the number of its shards in place of their list, and as `unknown_rate` the
        share of its tokens that the vocabulary does not know.
        """
        summary = asdict(self)
        for split in summary["splits"].values():
            split["shards"] = len(split["shards"])
            split["unknown_rate"] = split["unknown_tokens"] / max(1, split["tokens"])
        return summary

    @property
    def unknown_rate(self) -> float:
        """The share of the tokens of all splits that the vocabulary does not know."""
        unknown = sum(split.unknown_tokens for split in self.splits.values())
        return unknown / max(1, sum(split.tokens for split in self.splits.values()))

    @classmethod
    def read(cls, directory: Path) -> "Manifest":
        """Read manifest.json.

        Raises:
            CorpusError: no folder, no corpus, an unknown version or a damaged manifest, such as
                one that names files elsewhere.
        """
        from pydantic import TypeAdapter, ValidationError

        directory = Path(directory)
        fields = _read_fields(directory)
        try:
            manifest = TypeAdapter(cls).validate_python(fields)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"]))
            raise CorpusError(
                f"{directory}/{MANIFEST_NAME}: damaged at {field} ({first['msg']}). {NEXT_STEP}"
            ) from error
        if not 1 <= manifest.tokenizer.vocab_size <= LARGEST["vocab_size"]:
            raise CorpusError(
                f"{directory}/{MANIFEST_NAME}: tokenizer.vocab_size is "
                f"{manifest.tokenizer.vocab_size:,}; allowed is 1 to {LARGEST['vocab_size']:,}. "
                f"{NEXT_STEP}"
            )
        for name, split in manifest.splits.items():
            _check_names(directory / MANIFEST_NAME, name, split)
            _check_sums(directory / MANIFEST_NAME, name, split)
        return manifest


def _check_names(path: Path, name: str, split: SplitManifest) -> None:
    """Raise CorpusError if a shard's file has another name than corpus build gives it.

    A file of another name could lie outside the folder, or be read twice: as two shards, or in
    training and in evaluation.
    """
    for number, shard in enumerate(split.shards):
        for file, content in zip(shard.files, ("ids", "sentences", "documents"), strict=True):
            allowed = f"{name}-{number:05d}.{content}.npy"
            if file.name != allowed:
                raise CorpusError(
                    f"{path}: splits.{name}.shards has the file {file.name!r}; allowed in its "
                    f"place is {allowed}. {NEXT_STEP}"
                )


def _check_sums(path: Path, name: str, split: SplitManifest) -> None:
    """Raise CorpusError if a split's counts are not the sums of its shards'."""
    for key in ("documents", "sentences", "tokens"):
        stated, counted = getattr(split, key), sum(getattr(shard, key) for shard in split.shards)
        if stated != counted:
            raise CorpusError(
                f"{path}: splits.{name}.{key} is {stated:,}, its shards have {counted:,}. "
                f"{NEXT_STEP}"
            )


def is_corpus(directory: Path) -> bool:
    """Return whether a folder has the manifest of a corpus, of any version."""
    try:
        fields = parse_json(read_small_file(directory / MANIFEST_NAME))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError):
        return False
    return isinstance(fields, dict) and fields.get("format") == CORPUS_FORMAT


def _read_fields(directory: Path) -> dict[str, Any]:
    """Read manifest.json without its format and version, which must be those of this module."""
    path = directory / MANIFEST_NAME
    if directory.is_file():
        raise CorpusError(
            f"{directory}: this is a file, not a corpus. Make a corpus of your texts with "
            "'bertsmith corpus build', and give its folder."
        )
    if not directory.is_dir():
        raise CorpusError(f"{directory}: no such folder. Give a folder made by corpus build.")
    if not path.exists():
        raise CorpusError(
            f"{directory} is not a corpus folder: it has no {MANIFEST_NAME}. Make one with "
            "'bertsmith corpus build', or copy the folder again."
        )
    try:
        fields = parse_json(read_small_file(path))
    except OSError as error:
        raise read_error(CorpusError, path, error) from error
    except CheckpointError as error:  # not the file itself, such as a pointer of Git LFS
        raise CorpusError(error.message) from error
    except ValueError as error:
        raise CorpusError(f"{path}: damaged, not JSON ({error}). {NEXT_STEP}") from error
    if not isinstance(fields, dict) or fields.pop("format", None) != CORPUS_FORMAT:
        raise CorpusError(f"{path}: not the manifest of a corpus. {NEXT_STEP}")
    version = fields.pop("format_version", None)
    if version != FORMAT_VERSION:
        raise CorpusError(
            f"{path}: format version {version}, this bertsmith reads version {FORMAT_VERSION}. "
            "Build the corpus again, or use the bertsmith that wrote it."
        )
    return fields

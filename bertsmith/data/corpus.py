"""Read a corpus: the folder of token ids from which models are pre-trained.

Its documents are in two splits, for training and for evaluation. The ids of a split are in several
files, called shards, which are mapped into memory and read like one long array.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bertsmith.data.manifest import (
    MANIFEST_NAME,
    NEXT_STEP,
    Manifest,
    ShardFile,
    Split,
    SplitManifest,
)
from bertsmith.errors import CorpusError, read_error
from bertsmith.system.cores import available_cores
from bertsmith.system.files import sha256_file
from bertsmith.system.git_lfs import describe_pointer, is_pointer_file
from bertsmith.system.progress import progress_bar
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.piece_bytes import continuation_bytes
from bertsmith.tokenization.tokenizer import Tokenizer

TOKENIZER_DIR = "tokenizer"
"""Folder in a corpus with a copy of the tokenizer that made the ids."""
COUNTING_BLOCK = 1 << 22
"""Tokens that are counted at once; `np.bincount` copies them to int64, here 32 MiB."""


class Corpus:
    """One split of a corpus folder.

    The token ids are memory-mapped, so that processes share them. The starts of sentences and
    documents are read into the memory of each process: 8 bytes for each of them.

    Attributes:
        sentence_starts: index of each sentence's first token in the split, and the end of the last
            sentence; int64 `[num_sentences + 1]`.
        document_starts: index of each document's first sentence in the split, and the end of the
            last document; int64 `[num_documents + 1]`.
    """

    def __init__(self, directory: Path, split: Split, manifest: Manifest) -> None:
        counts = manifest.splits[split]
        shards = counts.shards
        self.directory = directory
        self.split = split
        self.manifest = manifest
        self.num_documents = counts.documents
        self.num_sentences = counts.sentences
        self.num_tokens = counts.tokens
        self.vocab_size = manifest.tokenizer.vocab_size
        self.tokenizer_fingerprint = manifest.tokenizer.fingerprint
        self._ids = [_load(directory, shard.token_ids, shard.tokens) for shard in shards]
        self._shard_starts = np.cumsum([0, *(shard.tokens for shard in shards)])
        self.sentence_starts = _join_starts(
            _load(directory, shard.sentence_starts, shard.sentences + 1) for shard in shards
        )
        self.document_starts = _join_starts(
            _load(directory, shard.document_starts, shard.documents + 1) for shard in shards
        )

    @classmethod
    def open(cls, directory: Path, split: Split = "train", *, verify: bool = True) -> "Corpus":
        """Open a split; with `verify` read every file once and compare its checksum.

        Sizes of files are always compared. A split without documents opens as an empty one.

        Raises:
            CorpusError: the folder is not a corpus or of an unknown version, a shard is missing
                or has another size, or, with `verify`, another checksum.
        """
        directory = Path(directory)
        manifest = Manifest.read(directory)
        if split not in manifest.splits:
            raise CorpusError(f"{directory}: no split {split!r}. {NEXT_STEP}")
        _check_files(directory, manifest.splits[split], verify)
        return cls(directory, split, manifest)

    def token_ids(self, start: int, end: int) -> np.ndarray:
        """Return the ids of tokens `start` to `end`, which must be in one document.

        A document is in one shard, so the tokens are in one file. The result, uint16 or uint32
        `[end - start]`, is a read-only view of the file.
        """
        shard = int(np.searchsorted(self._shard_starts, start, side="right")) - 1
        first = self._shard_starts[shard]
        return self._ids[shard][start - first : end - first]

    def count_tokens(self) -> np.ndarray:
        """Count each id, int64 `[vocabulary]`; reads a part of a shard at a time.

        Raises:
            CorpusError: a shard has an id beyond the vocabulary.
        """
        counts = np.zeros(self.vocab_size, dtype=np.int64)
        for shard in self._ids:
            for start in range(0, len(shard), COUNTING_BLOCK):
                counts += self.count_ids(shard[start : start + COUNTING_BLOCK])
        return counts

    def count_ids(self, ids: np.ndarray) -> np.ndarray:
        """Count each of some token ids of the corpus, int64 `[vocabulary]`.

        Raises:
            CorpusError: an id is beyond the vocabulary.
        """
        counts = np.bincount(ids, minlength=self.vocab_size)
        if len(counts) > self.vocab_size:
            raise CorpusError(
                f"{self.directory / MANIFEST_NAME}: tokenizer.vocab_size is "
                f"{self.vocab_size:,}, and the shards have the id {len(counts) - 1:,}. {NEXT_STEP}"
            )
        return counts

    @cached_property
    def num_bytes(self) -> int:
        """The length of the split's documents in UTF-8.

        In UTF-8, a character has one first byte, and none to three bytes after it. The first bytes
        are as many as the characters, which manifest.json counts; the other bytes are counted in
        the spellings of the tokens. So the number is exact if the tokens hold all characters that
        are not ASCII. A character that the tokenizer does not know, or that it replaces by an ASCII
        letter (é by e), counts as one byte. In 100 MB of English Wikipedia, without upper case and
        accents, the number is 0.1 % too small.
        """
        characters = self.manifest.splits[self.split].characters
        return characters + int(self.count_tokens() @ continuation_bytes(self.tokenizer()))

    def tokenizer(self) -> Tokenizer:
        """Load the tokenizer of the ids, from the copy in the folder.

        Raises:
            CorpusError: the copy is not the tokenizer that built the corpus.
        """
        path = self.directory / TOKENIZER_DIR
        tokenizer = load_tokenizer(path)
        if tokenizer.fingerprint != self.tokenizer_fingerprint:
            raise CorpusError(
                f"{path}: its fingerprint is {tokenizer.fingerprint[:12]}, but the corpus was "
                f"built with {self.tokenizer_fingerprint[:12]}. {NEXT_STEP}"
            )
        if tokenizer.vocab_size != self.vocab_size:
            raise CorpusError(
                f"{self.directory / MANIFEST_NAME}: tokenizer.vocab_size is {self.vocab_size:,}, "
                f"and {path} has {tokenizer.vocab_size:,} tokens. {NEXT_STEP}"
            )
        return tokenizer

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process maps the files itself, and need not verify them again.
        return _reopen, (self.directory, self.split)


def _reopen(directory: Path, split: Split) -> Corpus:
    return Corpus.open(directory, split, verify=False)


def _load(directory: Path, file: ShardFile, count: int) -> np.ndarray:
    """Map the `count` values of a .npy file into memory."""
    path = directory / file.name
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise read_error(CorpusError, path, error) from error
    except Exception as error:  # numpy reads the header as Python, which fails in many ways
        raise CorpusError(f"{path}: cannot be read ({error}). {NEXT_STEP}") from error
    if values.shape != (count,):
        raise CorpusError(
            f"{path}: the array has the shape {list(values.shape)}, where the manifest says "
            f"{count:,} values. {NEXT_STEP}"
        )
    return np.asarray(values)  # a plain view: slicing a memmap object is several times slower


def _join_starts(starts_of_shards: Iterator[np.ndarray]) -> np.ndarray:
    """Join the starts in each shard, which count from its own beginning, to starts in the split."""
    joined = [np.zeros(1, np.int64)]
    for starts in starts_of_shards:
        # A shard's own first start is 0; its place in the split is the end of the shard before.
        joined.append(starts[1:].astype(np.int64) + joined[-1][-1])
    return np.concatenate(joined)


def _check_files(directory: Path, split: SplitManifest, verify: bool) -> None:
    """Compare the sizes of a split's files with the manifest, and with `verify` their checksums."""
    files = [file for shard in split.shards for file in shard.files]
    for file in files:
        _check_size(directory / file.name, file)
    if verify:
        with (
            progress_bar("verifying checksums", sum(file.bytes for file in files)) as bar,
            ThreadPoolExecutor(available_cores()) as pool,  # hashing lets other threads run
        ):
            checks = pool.map(lambda file: _check_sha256(directory / file.name, file), files)
            for file, _ in zip(files, checks, strict=True):
                bar(file.bytes)


def _check_size(path: Path, file: ShardFile) -> None:
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise CorpusError(f"{path}: missing ({error.strerror}). {NEXT_STEP}") from error
    except OSError as error:
        raise read_error(CorpusError, path, error) from error
    if size != file.bytes:
        if is_pointer_file(path):
            raise CorpusError(describe_pointer(path))
        raise CorpusError(
            f"{path}: has {size:,} bytes; the manifest says {file.bytes:,}. The shard was "
            f"truncated or altered. {NEXT_STEP}"
        )


def _check_sha256(path: Path, file: ShardFile) -> None:
    digest = sha256_file(path)
    if digest != file.sha256:
        raise CorpusError(
            f"{path}: its SHA-256 is {digest[:12]}…; the manifest says {file.sha256[:12]}…. The "
            f"shard was altered. {NEXT_STEP}"
        )

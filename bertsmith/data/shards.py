"""Write the token ids of a corpus as shards, files from which models are pre-trained.

The ids have no special tokens and no padding. Each shard is three standard .npy files: the ids
(uint16 if the vocabulary is small enough, else uint32) and the starts of sentences and documents,
with the end of the last one. Each document is whole in one shard.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertsmith.data.manifest import Shard, ShardFile, Split, SplitManifest
from bertsmith.data.npy import NpyWriter
from bertsmith.data.settings import SHARD_TOKENS
from bertsmith.system.files import sha256_file


def id_dtype(vocab_size: int) -> np.dtype[Any]:
    """Return the smallest of uint16 and uint32 that holds every id.

    >>> id_dtype(30522), id_dtype(119547)
    (dtype('uint16'), dtype('uint32'))
    """
    return np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.uint32)


@dataclass(frozen=True, slots=True)
class DocumentBlock:
    """Some encoded documents of one split, one after another, which are written at once.

    Shapes: `ids` `[tokens]`; `sentence_lengths` in tokens, `[sentences]`, none of them 0;
    `document_lengths` in sentences, `[documents]`, none of them 0; integers of any width.
    `characters` is the number of characters of these documents.
    """

    ids: np.ndarray
    sentence_lengths: np.ndarray
    document_lengths: np.ndarray
    unknown_tokens: int
    characters: int


class SplitWriter:
    """Writes the blocks of one split, training or held out, to numbered shards.

    A shard has `shard_tokens` tokens or a little more; the last one may have fewer. If the process
    ends too early, files stay incomplete. So use a writer inside `atomic_dir` (system/files.py),
    whose folder is complete or absent.
    """

    def __init__(
        self, directory: Path, split: Split, vocab_size: int, shard_tokens: int = SHARD_TOKENS
    ) -> None:
        self._directory = directory
        self._split = split
        self._dtype = id_dtype(vocab_size)
        self._shard_tokens = shard_tokens
        self._shards: list[Shard] = []
        self._shard: _ShardWriter | None = None
        self._unknown_tokens = 0
        self._characters = 0
        self._sentence_lengths = np.zeros(0, np.int64)
        self._document_lengths = np.zeros(0, np.int64)

    def add(self, block: DocumentBlock) -> None:
        """Write a block to the open shard or to a new one; close the shard if it is long enough."""
        if not len(block.document_lengths):  # such as the last block of an empty split
            return
        if self._shard is None:
            stem = f"{self._split}-{len(self._shards):05d}"
            self._shard = _ShardWriter(self._directory, stem, self._dtype)
        self._shard.add(block)
        self._unknown_tokens += block.unknown_tokens
        self._characters += block.characters
        self._count_lengths(block)
        if self._shard.tokens >= self._shard_tokens:
            self._finish_shard()

    def _count_lengths(self, block: DocumentBlock) -> None:
        """Count sentences and documents by their lengths in tokens, for the manifest."""
        # Number of tokens up to the end of each document, that is, of its last sentence.
        ends = np.cumsum(block.sentence_lengths)[np.cumsum(block.document_lengths) - 1]
        tokens_of_document = np.diff(ends, prepend=0)
        self._sentence_lengths = _add_counts(self._sentence_lengths, block.sentence_lengths)
        self._document_lengths = _add_counts(self._document_lengths, tokens_of_document)

    def _finish_shard(self) -> None:
        if self._shard is not None:
            self._shards.append(self._shard.finish())
            self._shard = None

    def finish(self) -> SplitManifest:
        """Close the last shard and return the counts of all shards."""
        self._finish_shard()
        return SplitManifest(
            documents=sum(shard.documents for shard in self._shards),
            sentences=sum(shard.sentences for shard in self._shards),
            tokens=sum(shard.tokens for shard in self._shards),
            unknown_tokens=self._unknown_tokens,
            characters=self._characters,
            sentence_lengths=tuple(self._sentence_lengths.tolist()),
            document_lengths=tuple(self._document_lengths.tolist()),
            shards=tuple(self._shards),
        )

    def close(self) -> None:
        if self._shard is not None:
            self._shard.close()


def _add_counts(counts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Add lengths to a histogram whose bin i counts lengths of i + 1 binary digits."""
    digits = np.frexp(lengths)[1]  # exact: n = m * 2**digits with 0.5 <= m < 1
    added = np.bincount(digits - 1, minlength=len(counts))
    added[: len(counts)] += counts
    return added


class _ShardWriter:
    """Writes one shard: ids and starts go to disk as they come."""

    def __init__(self, directory: Path, stem: str, dtype: np.dtype[Any]) -> None:
        self.tokens = self._sentences = self._documents = 0
        dtypes = {"ids": dtype, "sentences": np.dtype(np.uint32), "documents": np.dtype(np.uint32)}
        self._paths = [directory / f"{stem}.{content}.npy" for content in dtypes]
        self._files = [
            NpyWriter(path.open("wb"), dtype)
            for path, dtype in zip(self._paths, dtypes.values(), strict=True)
        ]
        for starts in self._files[1:]:
            starts.append(np.zeros(1))  # the first sentence or document starts at 0

    def add(self, block: DocumentBlock) -> None:
        ids, sentence_starts, document_starts = self._files
        ids.append(block.ids)
        sentence_starts.append(self.tokens + np.cumsum(block.sentence_lengths))
        document_starts.append(self._sentences + np.cumsum(block.document_lengths))
        self.tokens += len(block.ids)
        self._sentences += len(block.sentence_lengths)
        self._documents += len(block.document_lengths)

    def finish(self) -> Shard:
        self.close()
        files = (
            ShardFile(path.name, path.stat().st_size, sha256_file(path)) for path in self._paths
        )
        return Shard(self._documents, self._sentences, self.tokens, *files)

    def close(self) -> None:
        with ExitStack() as stack:
            for writer in self._files:
                # A second call, after a full disk, finds the files closed.
                if not writer.file.closed:
                    stack.enter_context(writer.file)
                    stack.callback(writer.finish)

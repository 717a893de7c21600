"""Build a corpus, the folder of token ids from which models are pre-trained, out of texts.

The texts are divided into parts, which other processes, called by an `Executor`, read and encode.
This process chooses for each document whether it is for training or for evaluation (its split), and
writes. The corpus depends on the files, the tokenizer and the settings, but neither on the order in
which the paths are given nor on the executor. The folder appears when it is complete.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from bertsmith.data.corpus import TOKENIZER_DIR
from bertsmith.data.documents import DocumentReader, Texts, TextsInMemory, select_sources
from bertsmith.data.encoding import (
    EncodedDocuments,
    EncodedPart,
    Encoder,
    TextBatch,
    iter_batches,
    iter_parts,
)
from bertsmith.data.manifest import (
    MANIFEST_NAME,
    SHARD_NAME,
    SPLITS,
    Manifest,
    SourcesManifest,
    Split,
    SplitManifest,
    TokenizerManifest,
    is_corpus,
)
from bertsmith.data.partitions import Partition
from bertsmith.data.reading import SourceReport
from bertsmith.data.seen_hashes import SeenHashes
from bertsmith.data.settings import CorpusSettings
from bertsmith.data.shards import DocumentBlock, SplitWriter
from bertsmith.data.splits import HeldOutChoice
from bertsmith.data.text_files import IN_MEMORY
from bertsmith.errors import CorpusError, InputError, option
from bertsmith.system.executor import Executor
from bertsmith.system.files import atomic_dir
from bertsmith.system.locks import hold_folder
from bertsmith.system.paths import check_outside, is_within, shell_path
from bertsmith.system.processes import LocalProcesses
from bertsmith.system.progress import progress_bar
from bertsmith.tokenization.tokenizer import Tokenizer

BLOCK_CHARS = 1 << 19
"""Smallest number of characters of a split that are written at once, as a block. A shard (a file of
the corpus) ends only at the end of a block."""
UNMERGED_DIR = "unmerged"
"""Folder in `out` of the texts that several jobs have encoded, until `corpus merge` makes them a
corpus."""
KNOWN_NAMES = re.compile(
    rf"{re.escape(MANIFEST_NAME)}|{TOKENIZER_DIR}|{UNMERGED_DIR}|{SHARD_NAME.pattern}"
)
"""Names in a corpus folder; a pattern, since its manifest may be damaged."""


def build_corpus(
    texts: Texts,
    tokenizer: Tokenizer,
    out: Path,
    settings: CorpusSettings | None = None,
    *,
    executor: Executor | None = None,
    overwrite: bool = False,
) -> Manifest:
    """Build the corpus folder `out` from files, folders and globs, or from texts in memory.

    Args:
        executor: reads and encodes the texts; None means `LocalProcesses()`.
        overwrite: whether an earlier corpus in `out` is replaced, once the new one is complete.

    Raises:
        InputError, CorpusError, ConfigError: texts, settings or `out` cannot be used; `out` is
        unchanged.
    """
    settings = settings or CorpusSettings()
    executor = executor or LocalProcesses()
    paths = [] if isinstance(texts, TextsInMemory) else sorted(map(str, texts))
    check_corpus_out(out, overwrite, paths)
    check_outside(out, *paths)  # `out` is not one of the folders of texts, nor inside one
    report = SourceReport()
    sources = select_sources(paths, report)
    reader = DocumentReader(settings.text_column, settings.errors)
    encoder = Encoder(tokenizer, reader)
    with (
        # Checked again under the lock, as another process may have written there meanwhile.
        hold_folder(out, check=lambda: check_corpus_out(out, overwrite, paths)),
        atomic_dir(out) as folder,
    ):
        tokenizer.save(folder / TOKENIZER_DIR)
        parts: Iterator[Partition | TextBatch] = iter_parts(sources, reader, report)
        if isinstance(texts, TextsInMemory):
            parts = iter_batches(texts.read(report))
        with closing(executor.map_in_order(encoder.encode_part, parts)) as encoded:
            return write_corpus(folder, encoded, tokenizer, settings, report, paths)


def write_corpus(
    folder: Path,
    encoded: Iterable[EncodedPart],
    tokenizer: Tokenizer,
    settings: CorpusSettings,
    report: SourceReport,
    paths: Sequence[str],
    *,
    action: str = "reading texts",
) -> Manifest:
    """Write the shards and the manifest (manifest.json) of encoded texts, in their order.

    Args:
        folder: an empty one, in which the tokenizer may be already.
        report: counts of the sources, to which the counts of `encoded` are added.
        paths: texts as the user named them; none where they were in memory.
        action: shown with the progress.

    Raises:
        InputError, CorpusError: no document, or none of its words is in the vocabulary.
    """
    source_names = ", ".join(paths[:9]) or IN_MEMORY
    blocks = _make_blocks(_assign_splits(encoded, settings, report), tokenizer.unk_id)
    splits = _write_splits(folder, blocks, tokenizer, settings, report, action)
    if not any(split.documents for split in splits.values()):
        raise InputError(
            f"{source_names}: no document found (files read: {report.files:,}; skipped: "
            f"{report.describe_skipped()}). Nothing was written; give texts with words in them."
        )
    if all(split.tokens == split.unknown_tokens for split in splits.values()):
        raise CorpusError(
            f"{source_names}: none of the words is in the vocabulary: all tokens ("
            f"{sum(split.tokens for split in splits.values()):,}) are {tokenizer.unk_token}. "
            f"Nothing was written; give a {option('tokenizer')} that was trained on such texts."
        )
    manifest = Manifest(
        tokenizer=TokenizerManifest(tokenizer.fingerprint, tokenizer.vocab_size),
        splits=splits,
        sources=SourcesManifest(
            files=report.files,
            bytes=report.bytes,
            documents=report.documents,
            skipped=dict(sorted(report.skipped.items())),
            cut=dict(sorted(report.cut.items())),
            html_tags=report.html_tags,
        ),
        settings={"files": list(paths), **asdict(settings)},
    )
    manifest.write(folder)
    return manifest


def check_corpus_out(
    out: Path,
    overwrite: bool,
    paths: Sequence[str | Path] = (),
    *,
    may_be_unmerged: bool = False,
) -> None:
    """Refuse an output folder unless it is empty or a corpus to overwrite.

    Args:
        paths: the texts to read, none of which may be in `out`.
        may_be_unmerged: whether encoded texts that are not merged yet may be there, too.

    Raises:
        CorpusError: `out` is occupied, or one of `paths` is in it.
    """
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if (out / UNMERGED_DIR).exists() and not may_be_unmerged:
        raise CorpusError(
            f"{out}: holds a corpus that is not complete, in {UNMERGED_DIR}. Finish its shards, "
            f"and then run 'bertsmith corpus merge {shell_path(out)}', or remove that folder."
        )
    if not is_corpus(out):
        occupant = "folder with other things in it" if out.is_dir() else "file"
        raise CorpusError(f"{out}: a {occupant} is there already. Choose another {option('out')}.")
    for path in paths:
        if is_within(Path(path), out):
            raise CorpusError(
                f"{out}: holds {path}, which is to be read. Choose another {option('out')}."
            )
    others = sorted(path.name for path in out.iterdir() if not KNOWN_NAMES.fullmatch(path.name))
    if others:
        raise CorpusError(
            f"{out}: holds more than a corpus ({', '.join(others[:3])}). Choose another "
            f"{option('out')}."
        )
    if not overwrite:
        raise CorpusError(
            f"{out}: a corpus is there already. Choose another {option('out')}, or pass "
            f"{option('overwrite', True)}."
        )


def _assign_splits(
    parts: Iterable[EncodedPart], settings: CorpusSettings, report: SourceReport
) -> Iterator[tuple[EncodedDocuments, Split]]:
    """Divide encoded documents into ranges, each of one split, in order.

    Documents without tokens are left out, and with `settings.deduplicate` duplicates, too. They are
    left out before the split is chosen: `HeldOutChoice` makes sure that each split gets a document,
    and a document that is not written must not be the only one of its split.
    """
    choice = HeldOutChoice[EncodedDocuments](settings.held_out)
    with SeenHashes() as seen:
        for part in parts:
            report.add(part.report)
            documents = part.documents()
            is_kept = has_tokens = part.document_lengths > 0  # 0 sentences: no tokens
            skipped = Counter(documents_without_tokens=int((~has_tokens).sum()))
            if settings.deduplicate:
                is_kept = has_tokens & seen.add(part.text_hashes)  # `add` says which are new
                skipped["duplicate_documents"] = int((has_tokens & ~is_kept).sum())
            report.skipped += skipped  # += leaves out a count of 0
            if choice.needs_no_waiting:
                is_held_out = choice.are_held_out(part.text_hashes)
                yield from _divide_by_split(documents, is_kept, is_held_out)
                continue
            # `HeldOutChoice` may keep one of the first documents back, until it knows whether the
            # eval split needs it.
            for index in np.flatnonzero(is_kept).tolist():
                document = documents.slice(index, index + 1)
                yield from choice.assign(document, int(part.text_hashes[index]))
    yield from choice.finish()


def _divide_by_split(
    documents: EncodedDocuments, is_kept: np.ndarray, is_held_out: np.ndarray
) -> Iterator[tuple[EncodedDocuments, Split]]:
    """Yield the kept documents as ranges of one split, each as long as possible."""
    split_codes = np.where(is_kept, is_held_out, 2)  # 0: training, 1: held out, 2: left out
    starts = np.flatnonzero(np.diff(split_codes, prepend=-1)).tolist()
    for start, end in itertools.pairwise([*starts, len(documents)]):
        if is_kept[start]:
            yield documents.slice(start, end), "held_out" if is_held_out[start] else "train"


def _make_blocks(
    assigned: Iterable[tuple[EncodedDocuments, Split]], unk_id: int
) -> Iterator[tuple[Split, DocumentBlock]]:
    """Gather documents of one split to blocks of `BLOCK_CHARS` characters or a little more."""
    gathered: dict[Split, list[EncodedDocuments]] = {split: [] for split in SPLITS}
    num_gathered = dict.fromkeys(SPLITS, 0)  # characters
    for documents, split in assigned:
        # `ends` are the characters from the start of the open block to the end of each document.
        ends = num_gathered[split] + np.cumsum(documents.characters)
        start = 0
        while start < len(documents):
            # Characters before the block that begins with the document `start`.
            block_start = int(ends[start - 1]) if start else 0
            # The block ends before the document `end`, the first one that it does not need.
            end = int(np.searchsorted(ends, block_start + BLOCK_CHARS)) + 1
            gathered[split].append(documents.slice(start, min(end, len(documents))))
            if end > len(documents):  # too few documents: the block stays open
                num_gathered[split] = int(ends[-1]) - block_start
                break
            yield split, _make_block(gathered.pop(split), unk_id)
            gathered[split] = []
            num_gathered[split] = 0
            start = end
    # The last block of each split may be smaller, or empty.
    for split, ranges_left in gathered.items():
        yield split, _make_block(ranges_left, unk_id)


def _make_block(ranges: list[EncodedDocuments], unk_id: int) -> DocumentBlock:
    """Join ranges of documents to a block."""
    characters = _join((documents.characters for documents in ranges), np.dtype(np.int64))
    ids = _join((documents.ids for documents in ranges), np.dtype(np.uint16))
    sentence_lengths = (documents.sentence_lengths for documents in ranges)
    document_lengths = (documents.document_lengths for documents in ranges)
    return DocumentBlock(
        ids=ids,
        sentence_lengths=_join(sentence_lengths, np.dtype(np.int32)),
        document_lengths=_join(document_lengths, np.dtype(np.int32)),
        unknown_tokens=int(np.count_nonzero(ids == unk_id)),
        characters=int(characters.sum()),
    )


def _join(arrays: Iterable[np.ndarray], dtype: np.dtype[Any]) -> np.ndarray:
    """Join arrays, which may be none, in `dtype` or the wider one that they need."""
    return np.concatenate([np.empty(0, dtype), *arrays])


def _write_splits(
    folder: Path,
    blocks: Iterable[tuple[Split, DocumentBlock]],
    tokenizer: Tokenizer,
    settings: CorpusSettings,
    report: SourceReport,
    action: str,
) -> dict[Split, SplitManifest]:
    with ExitStack() as stack:
        writers = {
            split: stack.enter_context(
                closing(SplitWriter(folder, split, tokenizer.vocab_size, settings.shard_tokens))
            )
            for split in SPLITS
        }
        with progress_bar(action, None) as bar:
            for split, block in blocks:
                writers[split].add(block)
                shown = f"{action}, {report.documents:,} documents"
                bar.move(report.bytes_read, report.bytes_on_disk, shown)
        return {split: writer.finish() for split, writer in writers.items()}

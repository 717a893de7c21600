"""Build a corpus folder from text files, whole or not at all.

One process reads, chooses the split and writes; the others split sentences and encode. The output
depends on the text, the tokenizer and the settings only: not on the order of the paths, nor on the
number of processes.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path

from bertsmith.data.documents import Errors, SourceReport, iter_documents
from bertsmith.data.encoding import encode_batches, make_batches
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
from bertsmith.data.shards import (
    MAX_SHARD_TOKENS,
    SHARD_TOKENS,
    TOKENIZER_DIR,
    Block,
    SplitWriter,
)
from bertsmith.data.splits import HeldOutChoice, text_hash
from bertsmith.errors import ConfigError, CorpusError, InputError
from bertsmith.system.files import atomic_dir, hold_folder
from bertsmith.system.processes import num_processes
from bertsmith.tokenization.tokenizer import Tokenizer

OnProgress = Callable[[SourceReport], None]

KNOWN_NAMES = re.compile(rf"{re.escape(MANIFEST_NAME)}|{TOKENIZER_DIR}|{SHARD_NAME.pattern}")
"""Names in a corpus folder; a pattern, since its manifest may be damaged."""


@dataclass(frozen=True)
class CorpusSettings:
    """Settings of the corpus; saved in its manifest."""

    text_column: str = "text"
    """Text column of .jsonl, .csv, .tsv and .parquet files."""
    held_out: float = 0.01
    """Held-out share: the part of the documents kept out of training for evaluation; chosen by
    their text."""
    errors: Errors = "strict"
    """Lines or rows that cannot be read: stop at the first (strict), or skip and count them (skip).
    """
    deduplicate: bool = False
    """Deduplication: leave out documents that are equal to an earlier one, to the letter; they are
    counted."""
    shard_tokens: int = SHARD_TOKENS
    """Shard size: the number of tokens in a file before the next one is begun."""

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1:
            raise ConfigError(f"--held-out {self.held_out}: allowed is 0 or more, below 1.")
        if not 1 <= self.shard_tokens <= MAX_SHARD_TOKENS:
            raise ConfigError(
                f"--shard-tokens {self.shard_tokens}: allowed is 1 to {MAX_SHARD_TOKENS}."
            )


def build_corpus(
    paths: Iterable[str | Path],
    tokenizer: Tokenizer,
    out: Path,
    settings: CorpusSettings | None = None,
    *,
    processes: int | None = None,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> Manifest:
    """Build the corpus folder `out` from files, folders and globs.

    Args:
        processes: how many to encode in; None means one for each core.
        overwrite: whether an earlier corpus in `out` is replaced, once the new one is complete.
        on_progress: called now and then with what was read so far.

    Raises:
        InputError, CorpusError, ConfigError: and then `out` is as it was before.
    """
    settings = settings or CorpusSettings()
    paths = sorted(map(str, paths))
    processes = num_processes(processes)
    check_out(out, overwrite, paths)
    report = SourceReport()
    documents = iter_documents(
        paths, text_column=settings.text_column, errors=settings.errors, report=report
    )
    with hold_folder(out, lambda: check_out(out, overwrite, paths)), atomic_dir(out) as folder:
        tokenizer.save(folder / TOKENIZER_DIR)
        batches = make_batches(_place(documents, settings, report))
        with closing(encode_batches(batches, tokenizer, processes)) as blocks:
            splits = _write_splits(folder, blocks, tokenizer, settings, report, on_progress)
        if not any(split.documents for split in splits.values()):
            raise _no_documents(report)
        if all(split.tokens == split.unknown_tokens for split in splits.values()):
            raise _nothing_known(splits, tokenizer)
        manifest = Manifest(
            tokenizer=TokenizerManifest(tokenizer.fingerprint, tokenizer.vocab_size),
            splits=splits,
            sources=_describe_sources(report),
            settings={"files": paths, **asdict(settings)},
        )
        manifest.write(folder)
    return manifest


def check_out(out: Path, overwrite: bool, paths: Sequence[str | Path] = ()) -> None:
    """Refuse an output folder unless it is empty or a corpus to overwrite.

    Args:
        paths: what the corpus is built from.

    Raises:
        CorpusError: something stands at `out`, or is to be read from there.
    """
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not is_corpus(out):
        kind = "folder with other things in it" if out.is_dir() else "file"
        raise CorpusError(f"{out}: a {kind} is there already. Choose another --out.")
    for path in paths:
        if Path(path).resolve().is_relative_to(out.resolve()):
            raise CorpusError(f"{out}: holds {path}, which is to be read. Choose another --out.")
    others = sorted(path.name for path in out.iterdir() if not KNOWN_NAMES.fullmatch(path.name))
    if others:
        raise CorpusError(
            f"{out}: holds more than a corpus ({', '.join(others[:3])}). Choose another --out."
        )
    if not overwrite:
        raise CorpusError(
            f"{out}: a corpus is there already. Choose another --out, or pass --overwrite."
        )


def _place(
    documents: Iterable[str], settings: CorpusSettings, report: SourceReport
) -> Iterator[tuple[str, Split]]:
    choice = HeldOutChoice(settings.held_out)
    seen: set[int] = set()
    for text in documents:
        key = text_hash(text)
        if settings.deduplicate and key in seen:
            report.skipped["duplicate_documents"] += 1
            continue
        if settings.deduplicate:
            seen.add(key)
        yield from choice.place(text, key)
    yield from choice.finish()


def _write_splits(
    folder: Path,
    blocks: Iterator[tuple[Split, Block]],
    tokenizer: Tokenizer,
    settings: CorpusSettings,
    report: SourceReport,
    on_progress: OnProgress | None,
) -> dict[Split, SplitManifest]:
    with ExitStack() as stack:
        writers = {
            split: stack.enter_context(
                closing(SplitWriter(folder, split, tokenizer.vocab_size, settings.shard_tokens))
            )
            for split in SPLITS
        }
        for split, block in blocks:
            writers[split].add(block)
            if block.documents_without_tokens:
                report.skipped["documents_without_tokens"] += block.documents_without_tokens
            if on_progress:
                on_progress(report)
        return {split: writer.finish() for split, writer in writers.items()}


def _no_documents(report: SourceReport) -> InputError:
    skipped = ", ".join(f"{count:,} {reason}" for reason, count in sorted(report.skipped.items()))
    return InputError(
        f"{report.files:,} file(s) read, no document found (skipped: {skipped or 'nothing'}). "
        "Nothing was written; give files that hold text."
    )


def _nothing_known(splits: dict[Split, SplitManifest], tokenizer: Tokenizer) -> CorpusError:
    tokens = sum(split.tokens for split in splits.values())
    return CorpusError(
        f"all {tokens:,} tokens of the texts are {tokenizer.unk_token}: none of their words is in "
        "the vocabulary. Nothing was written; give a --tokenizer that was trained on such texts."
    )


def _describe_sources(report: SourceReport) -> SourcesManifest:
    return SourcesManifest(
        files=report.files,
        bytes=report.bytes,
        documents=report.documents,
        skipped=dict(sorted(report.skipped.items())),
        cut=dict(sorted(report.cut.items())),
    )

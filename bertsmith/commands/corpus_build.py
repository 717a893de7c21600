"""`bertsmith corpus build`: texts and a tokenizer → token ids on disk, ready for pre-training."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from bertsmith.commands.next_command import with_import_flags
from bertsmith.commands.output import print_json
from bertsmith.commands.settings.corpus_build import Settings
from bertsmith.data.corpus_build import UNMERGED_DIR, build_corpus
from bertsmith.data.manifest import Manifest, SourcesManifest, SplitManifest
from bertsmith.data.reading import format_reason
from bertsmith.data.settings import ShardNumber
from bertsmith.data.sharded_build import build_shard, build_with
from bertsmith.data.unknown_tokens import WARNING_RATE, warn_unknown
from bertsmith.model.hub import find_tokenizer
from bertsmith.system.counts import count_noun, percent
from bertsmith.system.dask_cluster import connect
from bertsmith.system.paths import check_outside, free_path, shell_path
from bertsmith.system.processes import LocalProcesses
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.vocabulary.origin import model_of_tokenizer, note_origin


def main(settings: Settings, line: Sequence[str]) -> None:
    """Build a corpus, or with --shard encode a part of one, and print what it has.

    This process and its children encode; with --scheduler, workers of Dask do.

    `line`, the words of the command line, which every command gets, is not needed here.
    """
    started_at = time.perf_counter()
    check_outside(settings.out, settings.tokenizer)
    folder = find_tokenizer(settings.tokenizer)
    tokenizer = load_tokenizer(folder)
    # The model that the suggested command continues: None if the tokenizer is not that of a model.
    model = model_of_tokenizer(folder)
    # Of a model of the hub, perhaps only the tokenizer has been fetched: `folder` then has no
    # weights, and `model` is None. The command names such a model as the hub does.
    is_from_hub = folder != settings.tokenizer
    if is_from_hub and (folder / "config.json").is_file():
        model = settings.tokenizer
    if settings.scheduler is not None:
        with connect(settings.scheduler) as cluster:
            manifest = build_with(
                cluster,
                settings.files,
                tokenizer,
                settings.out,
                settings.corpus,
                overwrite=settings.overwrite,
            )
        print_corpus(settings.out, model, manifest, started_at=started_at, as_json=settings.json)
        return
    executor = LocalProcesses(settings.processes)
    if settings.shard is not None:
        _encode_shard(settings, ShardNumber.parse(settings.shard), tokenizer, executor)
        unmerged = settings.out / UNMERGED_DIR  # holds the shards until all are encoded
        if model is not None and unmerged.is_dir():  # for the command that `merge` suggests
            note_origin(unmerged, model)
        return
    manifest = build_corpus(
        settings.files,
        tokenizer,
        settings.out,
        settings.corpus,
        executor=executor,
        overwrite=settings.overwrite,
    )
    print_corpus(settings.out, model, manifest, started_at=started_at, as_json=settings.json)


def print_corpus(
    out: Path, model: Path | None, manifest: Manifest, *, started_at: float, as_json: bool
) -> None:
    """Print the contents of a new corpus, and the command to run next.

    Args:
        model: the model to continue on the corpus, if its tokenizer is that of a model.
        started_at: the value of `time.perf_counter` when the command began.
    """
    elapsed_seconds = time.perf_counter() - started_at
    if manifest.unknown_rate > WARNING_RATE:  # the rate of each split is printed in any case
        warn_unknown(manifest.unknown_rate, out)
    if as_json:
        head = {"out": str(out), "elapsed_seconds": round(elapsed_seconds, 3)}
        print_json(head | manifest.summary())
    else:
        print("\n".join(_describe(out, manifest, elapsed_seconds)))
        print(f"next      {pretrain_command(out, model)}")


def _encode_shard(
    settings: Settings, shard: ShardNumber, tokenizer: Tokenizer, executor: LocalProcesses
) -> None:
    """Encode the share of the texts that --shard names, and print what it has."""
    out = settings.out
    report = build_shard(
        settings.files,
        tokenizer,
        out,
        settings.corpus,
        shard,
        executor=executor,
        overwrite=settings.overwrite,
    )
    if settings.json:
        print_json({"out": str(out), "shard": str(shard), **asdict(report)})
        return
    documents = count_noun(report.documents, "document")
    tokens = count_noun(report.tokens, "token")
    # A unit is a part of the texts, of which each shard encodes its share.
    parts = f"{report.units:,} of {count_noun(report.all_units, 'part')}"
    print(f"shard {shard}  {documents}, {tokens}; {parts}")
    command = with_import_flags(f"bertsmith corpus merge {shell_path(out)}")
    print(f"next      {command}  # once all shards are encoded")


def describe_split(split: SplitManifest) -> str:
    """Describe the size of a split of a corpus: that for training, or the held-out one."""
    unknown = split.unknown_tokens / max(1, split.tokens)
    return (
        f"{count_noun(split.documents, 'document')}, {count_noun(split.sentences, 'sentence')}, "
        f"{count_noun(split.tokens, 'token')} ({percent(unknown, decimals=3)} unknown)"
    )


def describe_sources(sources: SourcesManifest) -> str:
    """Describe how much text a corpus was built from."""
    return f"{count_noun(sources.files, 'file')}, {sources.bytes / 1e6:,.1f} MB of text"


def describe_html(sources: SourcesManifest) -> str:
    """Warn of HTML in the text; empty where there is none."""
    if not sources.html_tags:
        return ""
    tags = count_noun(sources.html_tags, "HTML tag")
    is_left, it = ("is left", "it") if sources.html_tags == 1 else ("are left", "them")
    return (
        f"{tags} such as <i> or <br /> {is_left} in the text. The model learns tag names and "
        f"attributes as words. Remove {it}."
    )


def _describe(out: Path, manifest: Manifest, elapsed_seconds: float) -> Iterator[str]:
    """Describe a corpus line by line, from its manifest: what was read, skipped and written."""
    sources = manifest.sources
    yield f"read      {describe_sources(sources)}"
    for name, split in manifest.splits.items():
        yield f"{name:<10}{describe_split(split)}"
    for reason, count in sources.skipped.items():
        yield f"skipped   {format_reason(reason, count)}"
    for reason, count in sources.cut.items():
        yield f"divided   {format_reason(reason, count)}"
    if note := describe_html(sources):
        yield f"note      {note}"
    yield f"written   {out} in {elapsed_seconds:,.1f} s"


def pretrain_command(corpus: Path, model: Path | None) -> str:
    """Return the command line that pre-trains a new model on a corpus, or continues `model`."""
    words = ["--recipe", "quarter-hour"]
    if model is not None:
        words = ["--recipe", "continue", "--from", shell_path(model)]
    words += ["--corpus", shell_path(corpus), "--out", shell_path(free_path(Path("runs", "mine")))]
    return with_import_flags(f"bertsmith pretrain {' '.join(words)}")

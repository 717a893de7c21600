"""`bertsmith tokenizer train`: texts → a tokenizer folder, and statistics of its fit."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bertsmith.commands.flags import changed_flags
from bertsmith.commands.next_command import with_import_flags
from bertsmith.commands.output import print_json
from bertsmith.commands.settings.tokenizer_train import Settings
from bertsmith.data.reading import SourceReport, format_reason
from bertsmith.data.settings import CorpusSettings
from bertsmith.system.counts import count_noun
from bertsmith.system.dask_cluster import connect
from bertsmith.system.paths import free_path, shell_path
from bertsmith.vocabulary.report import TokenizerReport
from bertsmith.vocabulary.settings import LearningSettings, TokenizerSettings
from bertsmith.vocabulary.stats import TokenizerStats
from bertsmith.vocabulary.train import write_tokenizer
from bertsmith.vocabulary.wordpiece import LearnedVocabulary

SHOWN_CHARACTERS = 20
"""Largest number of dropped characters that the report shows."""


def main(settings: Settings, line: Sequence[str]) -> None:
    """Learn a tokenizer and print how it fits; with --scheduler, workers of Dask count words.

    `line`, the words of the command line, which every command gets, is not needed here.
    """
    out = settings.out
    cluster = nullcontext() if settings.scheduler is None else connect(settings.scheduler)
    with cluster as executor:
        _, learned, report = write_tokenizer(
            settings.tokenizer, out, executor=executor, overwrite=settings.overwrite
        )
    if settings.json:
        print_json(report_as_json(settings.tokenizer, out, learned, report))
    else:
        print("\n".join(training_lines(settings.tokenizer, out, learned, report)))


def report_as_json(
    settings: TokenizerSettings, out: Path, learned: LearnedVocabulary, report: TokenizerReport
) -> dict[str, Any]:
    """Return the report of a new tokenizer in the folder `out` as plain JSON values.

    `report` counts the texts that were learned from (`learning`), and those on which the fit was
    measured (`measuring`).
    """
    return {
        "out": str(out),
        "settings": asdict(settings),
        "vocab_size": len(learned.tokens),
        "alphabet_size": len(learned.alphabet),
        "num_dropped_characters": len(learned.dropped_characters),
        "num_dropped_occurrences": sum(learned.dropped_characters.values()),
        "dropped_characters": "".join(learned.dropped_characters)[:SHOWN_CHARACTERS],
        "num_words": report.num_words,
        "num_distinct_words": report.num_distinct_words,
        "num_words_skipped": learned.skipped_words,
        "learning": report.learning.to_json(),
        "measuring": report.measuring.to_json(),
        "held_out_documents": report.held_out_documents,
        "held_out": {name: _stats_as_json(stats) for name, stats in report.stats.items()},
        "notes": report.notes,
        "seconds": report.seconds,
    }


def _stats_as_json(stats: TokenizerStats) -> dict[str, float]:
    rates = ("fertility", "unknown_rate", "vocabulary_use")
    return asdict(stats) | {name: round(getattr(stats, name), 6) for name in rates}


def training_lines(
    settings: TokenizerSettings, out: Path, learned: LearnedVocabulary, report: TokenizerReport
) -> Iterator[str]:
    """Format the report of a new tokenizer in the folder `out`, line by line."""
    dropped = learned.dropped_characters
    examples = " ".join(list(dropped)[:SHOWN_CHARACTERS])
    seconds = sum(report.seconds.values())
    # WordPiece alone can be learned by several rules.
    rule = settings.rule if settings.kind == "wordpiece" else settings.kind
    yield f"{out}: {len(learned.tokens):,} tokens by {rule}, in {seconds:.1f} s"
    yield f"read        {describe_source(report.learning)}"
    if settings.held_out:
        yield f"held out    {describe_source(report.measuring)}"
    else:
        yield f"held out    {report.held_out_documents:,} of these documents, for measuring"
    yield (
        f"words       {report.num_words:,}, of which {report.num_distinct_words:,} distinct; "
        f"{learned.skipped_words:,} too long or with a dropped character"
    )
    characters = f"characters  {len(learned.alphabet):,} kept"
    if dropped:
        total = sum(dropped.values())
        occur = "occurs" if len(dropped) == 1 else "occur"
        times = count_noun(total, "time")
        characters += f"; {len(dropped):,} dropped, which {occur} {times}: {examples}"
    yield characters
    if report.stats:
        yield f"\n{'on the held-out text':<20}  tokens per word   unknown words   vocabulary used"
    for name, stats in report.stats.items():
        yield (
            f"{name:<20}  {stats.fertility:15.4f}  {100 * stats.unknown_rate:12.4f} %"
            f"  {100 * stats.vocabulary_use:14.1f} %"
        )
    yield from report.notes
    yield f"next        {build_command(settings.files, out, settings)}"


def build_command(texts: Sequence[str], tokenizer: Path, settings: LearningSettings) -> str:
    """Return the command line that builds a corpus of the texts, with the same reading options."""
    reading = CorpusSettings(text_column=settings.text_column, errors=settings.errors)
    words = [*map(shell_path, texts), "--tokenizer", shell_path(tokenizer)]
    words += map(shlex.quote, changed_flags(reading))
    corpus = shell_path(free_path(Path("runs", "corpus")))
    return with_import_flags(f"bertsmith corpus build {' '.join(words)} --out {corpus}")


def describe_source(source: SourceReport) -> str:
    """Describe how much text was read, and how many documents were skipped or divided, and why."""
    counts = [
        count_noun(source.documents, "document"),
        f"{source.bytes / 1e6:,.1f} MB",
        count_noun(source.files, "file"),
        *(f"{format_reason(*each)} skipped" for each in source.skipped.items()),
        *(f"{format_reason(*each)} divided" for each in source.cut.items()),
    ]
    return ", ".join(counts)

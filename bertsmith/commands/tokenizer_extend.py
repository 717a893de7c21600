"""`bertsmith tokenizer extend`: a tokenizer and texts of a domain → one with their tokens."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from bertsmith.commands.tokenizer_train import check_out
from bertsmith.config import to_jsonable
from bertsmith.system.files import atomic_dir, hold_folder
from bertsmith.vocabulary.extend import ExtensionReport, ExtensionSettings, extend_tokenizer

SHOWN_PIECES = 12


def main(
    settings: Annotated[ExtensionSettings, tyro.conf.arg(name="")],
    out: Path,
    overwrite: bool = False,
    json_: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Add tokens of your own texts to a model's vocabulary.

    A model that was pre-trained on general text spells the words of your field with many tokens.
    This command finds the tokens that your texts lack and writes a tokenizer folder in which they
    stand behind the old ones, which keep their ids. 'corpus build --tokenizer' and 'pretrain
    --from' go on with it.

    Args:
        settings: What to extend, and what to learn from.
        out: The folder to write the tokenizer to.
        overwrite: Replace an earlier tokenizer in that folder.
        json_: Print one JSON object instead of text.
    """
    check_out(out, overwrite)
    with hold_folder(out, lambda: check_out(out, overwrite)):
        with Console(stderr=True).status("...") as status:
            tokenizer, report = extend_tokenizer(
                settings, on_step=lambda name: status.update(f"{name} ...")
            )
        with atomic_dir(out) as folder:
            tokenizer.save(folder)
    if json_:
        print(json.dumps(as_json(settings, out, report), ensure_ascii=False))
    else:
        print("\n".join(as_lines(settings, out, report)))


def as_json(settings: ExtensionSettings, out: Path, report: ExtensionReport) -> dict[str, Any]:
    return {
        "out": str(out),
        "settings": to_jsonable(settings),
        "num_old": report.num_old,
        "vocab_size": report.num_old + len(report.added),
        "num_words": report.reading.num_words,
        "learning": asdict(report.reading.learning),
        "measuring": asdict(report.reading.measuring),
        "held_out_documents": report.reading.held_out_documents,
        "pieces_per_word": {
            name: {"before": before.fertility, "after": after.fertility}
            for name, (before, after) in report.stats.items()
        },
        "unknown_rate": {
            name: {"before": before.unknown_rate, "after": after.unknown_rate}
            for name, (before, after) in report.stats.items()
        },
    }


def as_lines(settings: ExtensionSettings, out: Path, report: ExtensionReport) -> Iterator[str]:
    """Format the report for a reader."""
    total = report.num_old + len(report.added)
    yield f"{out}: {total:,} tokens, the {report.num_old:,} of {settings.from_} and behind them"
    yield (
        f"added       {len(report.added):,} pieces: {', '.join(report.added[:SHOWN_PIECES])}"
        f"{', …' if len(report.added) > SHOWN_PIECES else ''}"
    )
    if len(report.added) < settings.add:
        yield (
            f"            not {settings.add:,}: no other pair of pieces occurs "
            f"{settings.min_frequency} times. More text gives more."
        )
    read = report.sources
    skipped = "".join(f", {count:,} {why} skipped" for why, count in read.skipped.items())
    yield (
        f"read        {read.documents:,} documents, {read.bytes / 1e6:,.1f} MB; "
        f"{report.reading.held_out_documents:,} held out{skipped.replace('_', ' ')}"
    )
    yield f"\n{'pieces per word':<20}  {'before':>8}  {'after':>8}   unknown words"
    for name, (before, after) in report.stats.items():
        yield (
            f"{name:<20}  {before.fertility:8.4f}  {after.fertility:8.4f}   "
            f"{before.unknown_rate:.4%}, then {after.unknown_rate:.4%}"
        )
    where, texts = shlex.quote(str(out)), shlex.join(settings.texts)
    yield f"next        bertsmith corpus build {texts} --tokenizer {where} --out runs/corpus"

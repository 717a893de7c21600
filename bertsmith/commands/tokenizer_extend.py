"""`bertsmith tokenizer extend`: a tokenizer and texts of a domain → a larger tokenizer."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bertsmith.commands.output import print_json
from bertsmith.commands.settings.tokenizer_extend import Settings
from bertsmith.commands.tokenizer_train import build_command, describe_source
from bertsmith.config import to_jsonable
from bertsmith.system.counts import count_noun
from bertsmith.system.files import atomic_dir
from bertsmith.system.locks import hold_folder
from bertsmith.system.paths import check_outside
from bertsmith.tokenization.unigram_normalizer import SPACE
from bertsmith.vocabulary.extend import ExtensionReport, extend_tokenizer
from bertsmith.vocabulary.origin import note_origin
from bertsmith.vocabulary.settings import ExtensionSettings
from bertsmith.vocabulary.train import check_tokenizer_out

SHOWN_TOKENS = 12
"""Largest number of new tokens that the report shows."""


def main(settings: Settings, line: Sequence[str]) -> None:
    """Write the larger tokenizer, and print how it reads the texts.

    `line`, the words of the command line, which every command gets, is not needed here.
    """
    out, overwrite = settings.out, settings.overwrite
    check_outside(out, settings.extension.from_, *settings.extension.texts)
    with hold_folder(out, lambda: check_tokenizer_out(out, overwrite)):
        tokenizer, report = extend_tokenizer(settings.extension)
        with atomic_dir(out) as folder:
            tokenizer.save(folder)
            # So that `corpus build` can name the model that `pretrain --from` then continues.
            note_origin(folder, settings.extension.from_)
    if settings.json:
        print_json(extension_as_json(settings.extension, out, report))
    else:
        print("\n".join(extension_lines(settings.extension, out, report)))


def extension_as_json(
    settings: ExtensionSettings, out: Path, report: ExtensionReport
) -> dict[str, Any]:
    """Return the report of a new tokenizer in the folder `out` as plain JSON values."""
    result: dict[str, Any] = {
        "out": str(out),
        "settings": to_jsonable(settings),
        "num_old": report.num_old,
        "vocab_size": report.num_old + len(report.added),
        "num_words": report.reading.num_words,
        "learning": report.reading.learning.to_json(),
        "measuring": report.reading.measuring.to_json(),
        "held_out_documents": report.reading.held_out_documents,
    }
    for name in ("fertility", "unknown_rate"):
        result[name] = {
            text: {"before": getattr(before, name), "after": getattr(after, name)}
            for text, (before, after) in report.stats.items()
        }
    return result


def words_first(tokens: Sequence[str]) -> list[str]:
    """Sort tokens: words, then parts of words, then single letters, then other characters.

    Tokens of one kind keep their order. WordPiece marks parts of words, a unigram model words.

    >>> words_first(["#", "##ing", "a", "python"]), words_first(["ing", "a", "▁tensor"])
    (['python', '##ing', 'a', '#'], ['▁tensor', 'ing', 'a'])
    """
    are_words_marked = any(token.startswith(SPACE) for token in tokens)

    def rank(token: str) -> int:
        num_letters = sum(map(str.isalpha, token))
        if num_letters == 0:
            return 3
        if num_letters == 1:
            return 2
        is_word = token.startswith(SPACE) if are_words_marked else not token.startswith("##")
        return 0 if is_word else 1

    return sorted(tokens, key=rank)


def extension_lines(
    settings: ExtensionSettings, out: Path, report: ExtensionReport
) -> Iterator[str]:
    """Format the report of a new tokenizer in the folder `out`, line by line."""
    num_new = len(report.added)
    size = count_noun(report.num_old + num_new, "token")
    yield f"{out}: {size}: {report.num_old:,} from {settings.from_}, {num_new:,} new"
    shown = words_first(report.shown)[:SHOWN_TOKENS]
    more = ", …" if num_new > len(shown) else ""
    yield f"added       {count_noun(num_new, 'token')}: {', '.join(shown)}{more}"
    if num_new < settings.add:
        yield (
            f"            not {settings.add:,}: no other pair of tokens occurs "
            f"{settings.min_frequency} times. More text gives more tokens."
        )
    held_out = report.reading.held_out_documents
    yield f"read        {describe_source(report.reading.learning)}; {held_out:,} held out"
    yield f"\n{'tokens per word':<20}  {'before':>8}  {'after':>8}   unknown words"
    for name, (before, after) in report.stats.items():
        yield (
            f"{name:<20}  {before.fertility:8.4f}  {after.fertility:8.4f}   "
            f"{100 * before.unknown_rate:.4f} %, then {100 * after.unknown_rate:.4f} %"
        )
    yield f"next        {build_command(settings.texts, out, settings)}"

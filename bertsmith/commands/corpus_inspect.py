"""`bertsmith corpus inspect`: a corpus folder → its checksums verified, counts and examples."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bertsmith.commands.corpus_build import describe_html, describe_sources, describe_split
from bertsmith.commands.output import print_json
from bertsmith.commands.settings.corpus_inspect import Settings
from bertsmith.data.corpus import Corpus
from bertsmith.data.manifest import SPLITS, SourcesManifest, SplitManifest
from bertsmith.data.reading import format_reason
from bertsmith.errors import ConfigError
from bertsmith.pages.page import write_page
from bertsmith.pages.scale import Scale
from bertsmith.system.counts import count_noun
from bertsmith.system.escaping import make_console
from bertsmith.system.output_files import lock_outputs

BAR_WIDTH = 40
"""Width of the longest bar of a histogram, in characters of the terminal."""
EXAMPLE_CHARACTERS = 300
"""Largest number of characters that are shown of a document."""
MAX_TOKENS_OF_CHARACTER = 4
"""Most tokens that spell one character: a token of byte-level BPE may be a single byte of UTF-8."""


def main(settings: Settings, line: Sequence[str]) -> None:
    """Verify a corpus, and print its counts and examples; with --page, write them as a page, too.

    A corpus has two splits: "train", and "held_out" for evaluation.

    `line`, the words of the command line, which every command gets, is not needed here.
    """
    corpus, examples = settings.corpus, settings.examples
    if examples < 0:
        raise ConfigError(f"--examples: found {examples}; allowed is 0 or more.")
    splits = {split: Corpus.open(corpus, split, verify=True) for split in SPLITS}
    example_texts = {name: list(_examples(split, examples)) for name, split in splits.items()}
    manifest = splits["train"].manifest
    if settings.page is not None:
        # Locks the page, so that no other process writes it.
        with lock_outputs({"--page": settings.page}, input_file=None):
            write_page(
                settings.page,
                "data/page.html",
                corpus=str(corpus),
                manifest=manifest,
                sources=manifest.sources,
                left_out=_left_out(manifest.sources),
                splits=[
                    (name, split, example_texts[name], _length_histograms(split))
                    for name, split in manifest.splits.items()
                ],
            )
    if settings.json:
        facts = {"corpus": str(corpus), **manifest.summary(), "examples": example_texts}
        print_json(facts)
        return
    console = make_console(highlight=False, markup=False, soft_wrap=True)
    for name, split in manifest.splits.items():
        _print_split(console, name, split)
        for example in example_texts[name]:
            console.print(f"  · {example}")
    sources, tokenizer = manifest.sources, manifest.tokenizer
    console.print(f"read from {describe_sources(sources)}")
    for reason in _left_out(sources):
        console.print(f"  {reason}")
    if note := describe_html(sources):
        console.print(f"  note: {note}")
    console.print(f"tokenizer {tokenizer.fingerprint[:12]}, {tokenizer.vocab_size:,} tokens")


def _left_out(sources: SourcesManifest) -> list[str]:
    """Describe how many texts were left out or divided, a line for each reason."""
    return [
        *(f"skipped: {format_reason(*each)}" for each in sources.skipped.items()),
        *(f"divided: {format_reason(*each)}" for each in sources.cut.items()),
    ]


def _length_histograms(split: SplitManifest) -> dict[str, tuple[Scale, list[tuple[str, int]]]]:
    """Return a split's histograms of lengths by title, each with the scale of its bars."""
    counts = {"sentence": split.sentence_lengths, "document": split.document_lengths}
    return {
        f"tokens in a {name}": (Scale(0, max((1, *lengths))), histogram(lengths))
        for name, lengths in counts.items()
    }


def histogram(counts: Sequence[int]) -> list[tuple[str, int]]:
    """Label counts with their ranges of lengths, such as "4 to 7", from the shortest on.

    Entry i of `counts` counts the lengths from 2**i to 2**(i + 1) - 1.
    """
    shortest = next((exponent for exponent, count in enumerate(counts) if count), 0)
    rows = []
    for exponent, count in enumerate(counts[shortest:], shortest):
        low, high = 2**exponent, 2 ** (exponent + 1) - 1
        rows.append((f"{low:,}" if low == high else f"{low:,} to {high:,}", count))
    return rows


def _examples(corpus: Corpus, count: int) -> Iterator[str]:
    """Yield the beginnings of `count` documents, evenly spread over a split."""
    tokenizer = corpus.tokenizer()
    count = min(count, corpus.num_documents)
    for document in np.linspace(0, corpus.num_documents, count, endpoint=False).astype(int):
        first, last = corpus.document_starts[document : document + 2]
        start, end = corpus.sentence_starts[[first, last]]
        shown_end = min(end, start + EXAMPLE_CHARACTERS * MAX_TOKENS_OF_CHARACTER)
        text = tokenizer.decode(corpus.token_ids(start, shown_end).tolist())
        is_whole = shown_end == end and len(text) <= EXAMPLE_CHARACTERS
        yield text if is_whole else f"{text[:EXAMPLE_CHARACTERS]} …"


def _print_split(console: Any, name: str, split: SplitManifest) -> None:
    """Print the counts of the split `name`, and histograms of its lengths, on a console of rich."""
    from rich.bar import Bar
    from rich.table import Table

    console.print(
        f"{name}: {describe_split(split)}, {count_noun(split.characters, 'character')}, "
        f"{count_noun(len(split.shards), 'shard')}"
    )
    for title, (scale, rows) in _length_histograms(split).items():
        table = Table.grid(padding=(0, 1))
        table.add_column(justify="right", min_width=16)
        table.add_column(justify="right")
        table.add_column()
        for label, count in rows:
            table.add_row(label, f"{count:,}", Bar(scale.high, 0, count, width=BAR_WIDTH))
        console.print(f"  {title}")
        console.print(table)

"""A model folder and texts in, one that knows only the word pieces of these texts out."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro

from bertsmith.before_after import RANDOM_TEXTS, RANDOM_TOKENS, first_of
from bertsmith.compression.folder import (
    Compressed,
    CompressSettings,
    Smaller,
    alone_in_out,
    finish,
    open_source,
)
from bertsmith.compression.held_out import open_corpus
from bertsmith.data.documents import Errors, SourceReport, iter_documents
from bertsmith.errors import ConfigError, InputError
from bertsmith.model.vocabulary_trimming import trim_vocabulary
from bertsmith.text.tokenizer import Tokenizer
from bertsmith.text.used_pieces import Counts, count_pieces, kept_tokens


@dataclass(frozen=True)
class VocabularySettings(CompressSettings):
    """Which pieces stay."""

    texts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="FILES")] = ()
    """Texts whose word pieces to keep: .txt, .jsonl, .csv, .tsv or .parquet, also as .gz, .xz or
    .zst; folders and patterns are searched."""
    corpus: Path | None = None
    """A folder of `bertsmith corpus build` with the model's tokenizer, instead of --texts. Its
    held-out rows score a pre-trained model, before and after: the same rows and hidden words for
    both, where what is left out has become [UNK]."""
    min_count: int = 1
    """Keep a piece that occurs at least so often."""
    keep_characters: bool = True
    """Whether pieces of a single character stay in any case, so that new words of the same alphabet
    can still be read. --no-keep-characters drops those that do not occur, which saves much in
    Chinese."""
    texts_column: str = "text"
    """The column that holds the text in .jsonl, .csv, .tsv and .parquet files of --texts."""
    errors: Errors = "strict"
    """What to do with a line or row of --texts that cannot be read: stop there, or skip and count
    it."""

    def __post_init__(self) -> None:
        """Refuse what no vocabulary can be trimmed by."""
        if self.min_count < 1:
            raise ConfigError(f"--min-count: found {self.min_count}; allowed is 1 or more.")


@alone_in_out
def compress_vocabulary(settings: VocabularySettings) -> Compressed:
    """Keep the word pieces that texts use.

    Raises:
        ConfigError: no texts, or an occupied `out`.
        InputError: the texts cannot be read, or use no piece.
        CheckpointError: the folder is incomplete or not a BERT.
    """
    if bool(settings.texts) == (settings.corpus is not None):
        raise ConfigError(
            "Give --texts FILES or --corpus DIR, one of them, to say which pieces are used."
        )
    source, model, tokenizer = open_source(settings)
    read = SourceReport()
    counts = piece_counts(settings, tokenizer, read)
    ids = kept_tokens(
        tokenizer, counts, min_count=settings.min_count, keep_characters=settings.keep_characters
    )
    num_read, covered = int(counts.sum()), float(counts[ids].sum() / counts.sum())
    trimmed, smaller_tokenizer = trim_vocabulary(model, tokenizer, ids)
    smaller = Smaller(
        trimmed,
        smaller_tokenizer,
        done=f"kept {len(ids):,} of {tokenizer.vocab_size:,} tokens, which are {covered:.2%} of "
        f"the {num_read:,} that were read",
        facts={
            "method": "vocabulary",
            "vocab_size": len(ids),
            "num_tokens_read": num_read,
            "covered": covered,
            "skipped": dict(read.skipped),
        },
        notes=tuple(skipped_notes(read)),
        texts=sample_texts(settings, tokenizer),
        kept_ids=torch.tensor(sorted(ids)),
    )
    return finish(settings, source, smaller)


def skipped_notes(read: SourceReport) -> Iterator[str]:
    """What of the texts was left out."""
    for reason, count in read.skipped.items():
        if count:
            yield f"{count:,} {reason.replace('_', ' ')} skipped"


def piece_counts(settings: VocabularySettings, tokenizer: Tokenizer, read: SourceReport) -> Counts:
    """How often each token stands in the texts or the corpus."""
    if settings.corpus is not None:
        corpus = open_corpus(settings.corpus, tokenizer)
        counts = corpus.count_tokens()
    else:
        counts = count_pieces(tokenizer, documents(settings, read))
    if not counts.sum():
        raise InputError("--texts: no word in them. Name files with text.")
    return counts


def documents(settings: VocabularySettings, read: SourceReport | None = None) -> Iterable[str]:
    """The texts that the settings name, one at a time."""
    return iter_documents(
        settings.texts, text_column=settings.texts_column, errors=settings.errors, report=read
    )


def sample_texts(settings: VocabularySettings, tokenizer: Tokenizer) -> list[str]:
    """Some of the texts, to be timed on."""
    if settings.corpus is None:
        cut = (text[: 8 * RANDOM_TOKENS] for text in documents(settings))
        return first_of(itertools.islice(cut, RANDOM_TEXTS), len)
    corpus = open_corpus(settings.corpus, tokenizer)
    starts = corpus.sentence_starts[corpus.document_starts]
    bounds = list(itertools.pairwise(starts.tolist()))[:RANDOM_TEXTS]
    rows = [corpus.token_ids(start, min(end, start + RANDOM_TOKENS)) for start, end in bounds]
    return [tokenizer.decode(row.tolist()) for row in rows]

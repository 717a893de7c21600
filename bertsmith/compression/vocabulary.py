"""Trim a model's vocabulary to the tokens that texts use."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro

from bertsmith.compression.folder import (
    Compressed,
    CompressSettings,
    Smaller,
    alone_in_out,
    finish,
    open_source,
)
from bertsmith.compression.held_out import open_corpus
from bertsmith.data.documents import iter_documents
from bertsmith.data.reading import Errors, SourceReport
from bertsmith.errors import ConfigError, InputError
from bertsmith.evaluation.side_by_side import RANDOM_TEXTS, RANDOM_TOKENS, first_of
from bertsmith.model.vocabulary_trimming import trim_vocabulary
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.vocabulary.used_tokens import Counts, count_pieces, kept_tokens


@dataclass(frozen=True)
class VocabularySettings(CompressSettings):
    """Settings of vocabulary trimming: which tokens stay."""

    texts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="FILES")] = ()
    """Texts whose tokens to keep: .txt, .jsonl, .csv, .tsv or .parquet, also as .gz, .xz or .zst;
    folders and patterns are searched."""
    corpus: Path | None = None
    """Corpus whose tokens to keep, instead of --texts: a folder of `bertsmith corpus build` with
    the model's tokenizer. Its held-out rows score a pre-trained model, before and after: the same
    rows and masks for both, where removed tokens have become [UNK]."""
    min_count: int = 1
    """Minimum count: keep a token that occurs at least so often."""
    keep_characters: bool = True
    """Keep tokens of a single character in any case, so that new words of the same alphabet can
    still be read. --no-keep-characters drops those that do not occur, which saves much in Chinese.
    """
    texts_column: str = "text"
    """Text column of .jsonl, .csv, .tsv and .parquet files of --texts."""
    errors: Errors = "strict"
    """Lines or rows of --texts that cannot be read: stop at the first (strict), or skip and count
    them (skip)."""

    def __post_init__(self) -> None:
        if self.min_count < 1:
            raise ConfigError(f"--min-count: found {self.min_count}; allowed is 1 or more.")


@alone_in_out
def compress_vocabulary(settings: VocabularySettings) -> Compressed:
    """Keep the tokens that texts use.

    Raises:
        ConfigError: no texts, or an occupied `out`.
        InputError: the texts cannot be read, or use no token.
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
    """Yield a note for each reason why texts were skipped."""
    for reason, count in read.skipped.items():
        if count:
            yield f"{count:,} {reason.replace('_', ' ')} skipped"


def piece_counts(settings: VocabularySettings, tokenizer: Tokenizer, read: SourceReport) -> Counts:
    """Count the tokens of the texts or the corpus."""
    if settings.corpus is not None:
        corpus = open_corpus(settings.corpus, tokenizer)
        counts = corpus.count_tokens()
    else:
        counts = count_pieces(tokenizer, documents(settings, read))
    if not counts.sum():
        raise InputError("--texts: no word in them. Name files with text.")
    return counts


def documents(settings: VocabularySettings, read: SourceReport | None = None) -> Iterable[str]:
    """Stream the texts that the settings name."""
    found = iter_documents(
        settings.texts, text_column=settings.texts_column, errors=settings.errors, report=read
    )
    return (document.text for document in found)


def sample_texts(settings: VocabularySettings, tokenizer: Tokenizer) -> list[str]:
    """Return some of the texts, for timing."""
    if settings.corpus is None:
        cut = (text[: 8 * RANDOM_TOKENS] for text in documents(settings))
        return first_of(itertools.islice(cut, RANDOM_TEXTS), len)
    corpus = open_corpus(settings.corpus, tokenizer)
    starts = corpus.sentence_starts[corpus.document_starts]
    bounds = list(itertools.pairwise(starts.tolist()))[:RANDOM_TEXTS]
    rows = [corpus.token_ids(start, min(end, start + RANDOM_TOKENS)) for start, end in bounds]
    return [tokenizer.decode(row.tolist()) for row in rows]

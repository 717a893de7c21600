"""Trim a model's vocabulary to the tokens that texts use."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import torch
import tyro

from bertsmith.compression.folder import Smaller, SourceModel
from bertsmith.compression.held_out import open_corpus
from bertsmith.data.documents import iter_documents
from bertsmith.data.reading import Errors, SourceReport
from bertsmith.errors import ConfigError, InputError
from bertsmith.evaluation.side_by_side import RANDOM_TEXTS, RANDOM_TOKENS, first_of
from bertsmith.model.shrinking import trim_vocabulary
from bertsmith.system.compute import Advanced
from bertsmith.vocabulary.used_tokens import Counts, count_pieces, kept_tokens


@dataclass(frozen=True)
class VocabularySettings:
    """Fewer tokens: tokenizer and model lose those that your texts do not use. A text all of whose
    tokens are kept is read as before, with the same result to the bit; a word with a dropped token
    is cut into smaller ones."""

    vocabulary: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="TEXTS")] = None
    """Texts whose tokens to keep: .txt, .jsonl, .csv, .tsv or .parquet, also as .gz, .xz or .zst;
    folders and patterns are searched. Without texts, the tokens of --corpus are kept."""
    min_count: Advanced[int] = 1
    """Minimum count of a token that is kept."""
    keep_characters: Advanced[bool] = True
    """Single characters: kept even if they do not occur, so that new words of the same alphabet can
    still be read. --no-keep-characters drops those that do not occur, which saves much in
    Chinese."""
    texts_column: Advanced[str] = "text"
    """Text column of .jsonl, .csv, .tsv and .parquet files of --vocabulary."""
    errors: Advanced[Errors] = "strict"
    """Lines or rows of --vocabulary that cannot be read: stop at the first (strict), or skip and
    count them (skip)."""

    def __post_init__(self) -> None:
        if self.min_count < 1:
            raise ConfigError(f"--min-count: found {self.min_count}; allowed is 1 or more.")

    def shrink(self, source: SourceModel) -> Smaller:
        """Keep the tokens that texts use.

        Raises:
            ConfigError: no texts, or both texts and a corpus.
            InputError: the texts cannot be read, or use no token.
        """
        if bool(self.vocabulary) == (source.corpus is not None):
            raise ConfigError(
                "Give --vocabulary TEXTS, or --vocabulary and --corpus DIR, one of them, to say "
                "which tokens are used."
            )
        tokenizer, read = source.tokenizer, SourceReport()
        counts = self.token_counts(source, read)
        ids = kept_tokens(
            tokenizer, counts, min_count=self.min_count, keep_characters=self.keep_characters
        )
        num_read, covered = int(counts.sum()), float(counts[ids].sum() / counts.sum())
        trimmed, smaller_tokenizer = trim_vocabulary(source.model, tokenizer, ids)
        return Smaller(
            trimmed,
            smaller_tokenizer,
            done=f"kept {len(ids):,} of {tokenizer.vocab_size:,} tokens, which are {covered:.2%} "
            f"of the {num_read:,} that were read",
            facts={
                "method": "vocabulary",
                "vocab_size": len(ids),
                "num_tokens_read": num_read,
                "covered": covered,
                "skipped": dict(read.skipped),
            },
            notes=tuple(
                f"{count:,} {reason.replace('_', ' ')} skipped"
                for reason, count in read.skipped.items()
                if count
            ),
            texts=self.sample_texts(source),
            kept_ids=torch.tensor(sorted(ids)),
        )

    def token_counts(self, source: SourceModel, read: SourceReport) -> Counts:
        """Count the tokens of the texts or the corpus."""
        if source.corpus is not None:
            counts = open_corpus(source.corpus, source.tokenizer).count_tokens()
        else:
            counts = count_pieces(source.tokenizer, self.documents(read))
        if not counts.sum():
            raise InputError("--vocabulary: no word in the texts. Name files with text.")
        return counts

    def documents(self, read: SourceReport | None = None) -> Iterable[str]:
        """Stream the texts."""
        found = iter_documents(
            self.vocabulary or (), text_column=self.texts_column, errors=self.errors, report=read
        )
        return (document.text for document in found)

    def sample_texts(self, source: SourceModel) -> list[str]:
        """Return some of the texts, for timing."""
        if source.corpus is None:
            cut = (text[: 8 * RANDOM_TOKENS] for text in self.documents())
            return first_of(itertools.islice(cut, RANDOM_TEXTS), len)
        corpus = open_corpus(source.corpus, source.tokenizer)
        starts = corpus.sentence_starts[corpus.document_starts]
        bounds = list(itertools.pairwise(starts.tolist()))[:RANDOM_TEXTS]
        rows = [corpus.token_ids(start, min(end, start + RANDOM_TOKENS)) for start, end in bounds]
        return [source.tokenizer.decode(row.tolist()) for row in rows]

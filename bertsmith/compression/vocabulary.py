"""Trim a model's vocabulary to the tokens that texts use."""

import itertools
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from bertsmith.compression.folder import SmallerModel, SourceModel
from bertsmith.compression.held_out import open_corpus
from bertsmith.compression.settings import VocabularySettings
from bertsmith.data.documents import iter_documents
from bertsmith.data.reading import SourceReport, format_reason
from bertsmith.data.unknown_tokens import warn_unknown
from bertsmith.errors import ConfigError, InputError, option
from bertsmith.evaluation.side_by_side import RANDOM_TEXTS, RANDOM_TOKENS, first_of
from bertsmith.model.shrinking import trim_vocabulary
from bertsmith.tokenization.grouping import group_by_size
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.trimming import single_characters, with_required
from bertsmith.tokenization.wordpiece import CONTINUING_PREFIX, WordPieceTokenizer

BATCH_CHARS = 2**20
"""Characters of text that are tokenized at once."""

Counts = NDArray[np.int64]


def keep_tokens(settings: VocabularySettings, source: SourceModel) -> SmallerModel:
    """Keep the tokens that texts use.

    Raises:
        ConfigError: neither texts nor a corpus are given, or both.
        InputError: the texts cannot be read, or use no token.
    """
    if bool(settings.vocabulary) == (source.corpus is not None):
        number = "only one" if settings.vocabulary else "one"
        raise ConfigError(
            f"Which texts have the tokens to keep? Give {number} of them: "
            f"{option('vocabulary', placeholder='TEXTS')}, or {option('vocabulary')} alone with "
            f"{option('corpus', placeholder='DIR')}."
        )
    tokenizer = source.tokenizer
    report = SourceReport()
    counts, counts_in_unknown = count_used_tokens(settings, source, report)
    num_tokens = int(counts.sum())
    ids = select_tokens(
        tokenizer,
        counts + counts_in_unknown,
        min_count=settings.min_count,
        keep_characters=settings.keep_characters,
    )
    source_name = source.corpus or ", ".join(map(str, settings.vocabulary or ()))
    warn_unknown(int(counts[tokenizer.unk_id]) / num_tokens, source_name)
    covered_share = float(counts[ids].sum() / num_tokens)
    trimmed, smaller_tokenizer = trim_vocabulary(source.model, tokenizer, ids)
    return SmallerModel(
        trimmed,
        smaller_tokenizer,
        description=f"kept {len(ids):,} of the vocabulary's {tokenizer.vocab_size:,} tokens; they "
        f"cover {100 * covered_share:.2f} % of the {num_tokens:,} tokens in the texts",
        facts={
            "method": "vocabulary",
            "vocab_size": len(ids),
            "num_tokens_read": num_tokens,
            "covered": covered_share,
            "skipped": dict(report.skipped),
        },
        notes=tuple(
            f"{format_reason(reason, count)} skipped"
            for reason, count in report.skipped.items()
            if count
        ),
        texts=sample_texts(settings, source),
        kept_ids=torch.tensor(sorted(ids)),
    )


def count_used_tokens(
    settings: VocabularySettings, source: SourceModel, report: SourceReport
) -> tuple[Counts, Counts]:
    """Count how often the texts or the corpus use each token, as `count_text_tokens` does.

    `report` counts the lines or rows of the texts that are skipped. A corpus does not say which
    words became [UNK], so nothing is counted in them.

    Raises:
        InputError: the texts cannot be read, or have no word.
    """
    if source.corpus is not None:
        counts = open_corpus(source.corpus, source.tokenizer).count_tokens()
        counts_in_unknown = np.zeros_like(counts)
    else:
        texts = read_texts(settings, report)
        counts, counts_in_unknown = count_text_tokens(source.tokenizer, texts)
    if not counts.sum():
        raise InputError(f"{option('vocabulary')}: no word in the texts. Name files with text.")
    return counts, counts_in_unknown


def read_texts(settings: VocabularySettings, report: SourceReport | None = None) -> Iterable[str]:
    """Read the texts of the files that the settings name, one after another.

    `report` counts the lines or rows that are skipped.
    """
    documents = iter_documents(
        settings.vocabulary or (),
        text_column=settings.texts_column,
        errors=settings.errors,
        column_option="texts_column",
        report=report,
    )
    return (document.text for document in documents)


def sample_texts(settings: VocabularySettings, source: SourceModel) -> list[str]:
    """Take some texts, on which the vectors of both models are compared later.

    They are as many, and about as long, as the random texts on which models are compared without
    texts: a text of a file is cut after `8 * RANDOM_TOKENS` characters, a document of a corpus
    after `RANDOM_TOKENS` tokens.
    """
    if source.corpus is None:
        # A token has fewer than 8 characters on average, so this is enough text.
        beginnings = (text[: 8 * RANDOM_TOKENS] for text in read_texts(settings))
        # `first_of` stops after some number of characters, so that measuring takes little time.
        return first_of(itertools.islice(beginnings, RANDOM_TEXTS), len)
    corpus = open_corpus(source.corpus, source.tokenizer)
    # The index of each document's first token in the corpus, and the end of the last document.
    starts = corpus.sentence_starts[corpus.document_starts]
    documents = list(itertools.pairwise(starts.tolist()))[:RANDOM_TEXTS]
    rows = [corpus.token_ids(start, min(end, start + RANDOM_TOKENS)) for start, end in documents]
    return [source.tokenizer.decode(row.tolist()) for row in rows]


def count_text_tokens(tokenizer: Tokenizer, texts: Iterable[str]) -> tuple[Counts, Counts]:
    """Count how often each token occurs in `texts`, int64 `[vocab_size]`, and in unknown words.

    Only one batch of texts is in memory. A word that WordPiece cannot cut to its end becomes [UNK].
    The tokens at the beginning of such a word are counted apart, in the second result, since the
    encoded text does not have them. They must be kept, too: with a vocabulary without them, the
    word might be cut in another way, and would no longer be [UNK].
    """
    counts: Counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)
    counts_in_unknown = np.zeros_like(counts)
    # The tokens into which a word may be cut; added tokens come after them in the vocabulary.
    id_of_piece = {piece: id_ for id_, piece in enumerate(tokenizer.vocab[: tokenizer.num_pieces])}
    for batch in group_by_size(texts, BATCH_CHARS):
        ids, lengths = tokenizer.encode_batch_ids(batch)
        counts += np.bincount(ids, minlength=len(counts))
        if not isinstance(tokenizer, WordPieceTokenizer):
            continue
        ends = np.cumsum(lengths)  # of each text among the ids of the batch
        positions = np.flatnonzero(ids == tokenizer.unk_id)
        indices_with_unknown = np.unique(np.searchsorted(ends, positions, "right")).tolist()
        for index in indices_with_unknown:
            unfinished_ids = list(_unfinished_ids(tokenizer, id_of_piece, batch[index]))
            np.add.at(counts_in_unknown, unfinished_ids, 1)
    return counts, counts_in_unknown


def select_tokens(
    tokenizer: Tokenizer,
    counts: Counts,
    *,
    min_count: int = 1,
    keep_characters: bool = True,
) -> list[int]:
    """Select the ids to keep for these counts of tokens, in ascending order.

    Special and added tokens are always kept, and so are the tokens that a kept token is made of.
    With `keep_characters`, every single character is kept as well, so that a word of known
    characters can always be cut.
    """
    is_kept = counts >= min_count
    if keep_characters:
        is_kept |= single_characters(tokenizer)
    return np.flatnonzero(with_required(tokenizer, is_kept)).tolist()


def _unfinished_ids(
    tokenizer: WordPieceTokenizer, id_of_piece: Mapping[str, int], text: str
) -> Iterator[int]:
    """Yield the ids of the tokens that each unknown word has before cutting fails.

    As in WordPiece, each token is the longest one of the vocabulary at its place. `id_of_piece` has
    the ids of the tokens into which words may be cut.
    """
    for word in tokenizer.words(text):
        token_ids: list[int] = []
        start = 0
        while start < len(word) <= tokenizer.max_input_chars_per_word:
            prefix = CONTINUING_PREFIX if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in id_of_piece), None)
            if end is None:
                yield from token_ids
                break
            token_ids.append(id_of_piece[prefix + word[start:end]])
            start = end

"""A corpus of random words, for timing without text.

Words follow Zipf's law, since a frequent word's embedding is updated more often than a rare one's;
documents are long, so that rows are as long as they may be.
"""

from contextlib import closing
from pathlib import Path

import numpy as np

from bertsmith.data.manifest import (
    SPLITS,
    Manifest,
    SourcesManifest,
    SplitManifest,
    TokenizerManifest,
)
from bertsmith.data.shards import TOKENIZER_DIR, DocumentBlock, SplitWriter
from bertsmith.errors import SettingError
from bertsmith.tokenization.wordpiece import WordPieceTokenizer

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
NUM_DOCUMENTS = 400
SENTENCES = 100
"""Sentences per document."""
SHORTEST, LONGEST = 8, 40
"""Tokens per sentence."""


def write_random_corpus(directory: Path, vocab_size: int) -> None:
    """Write a corpus of about a million random tokens.

    Raises:
        ConfigError: the vocabulary has no room for a word beside the special tokens.
    """
    if vocab_size <= len(SPECIAL_TOKENS):
        raise SettingError(
            "vocab_size",
            vocab_size,
            f"{len(SPECIAL_TOKENS) + 1} or more, as {len(SPECIAL_TOKENS)} tokens are special ones",
        )
    words = [f"w{number}" for number in range(vocab_size - len(SPECIAL_TOKENS))]
    tokenizer = WordPieceTokenizer([*SPECIAL_TOKENS, *words])
    tokenizer.save(directory / TOKENIZER_DIR)
    rng = np.random.default_rng(0)
    splits: dict[str, SplitManifest] = {}
    for split in SPLITS:
        with closing(SplitWriter(directory, split, vocab_size)) as writer:
            writer.add(_random_block(len(words), rng))
            splits[split] = writer.finish()
    Manifest(
        tokenizer=TokenizerManifest(tokenizer.fingerprint, vocab_size),
        splits=splits,  # type: ignore[arg-type]
        sources=SourcesManifest(files=0, bytes=0, documents=0, skipped={}, cut={}),
        settings={"random": True},
    ).write(directory)


def _random_block(num_words: int, rng: np.random.Generator) -> DocumentBlock:
    lengths = rng.integers(SHORTEST, LONGEST + 1, NUM_DOCUMENTS * SENTENCES)
    frequencies = 1 / np.arange(1, num_words + 1)
    ids = rng.choice(num_words, lengths.sum(), p=frequencies / frequencies.sum())
    return DocumentBlock(
        ids=ids + len(SPECIAL_TOKENS),
        sentence_lengths=lengths,
        document_lengths=np.full(NUM_DOCUMENTS, SENTENCES),
        unknown_tokens=0,
        characters=0,
    )

"""The vocabulary that the `tokenizers` library learns from the same words, to compare with."""

import importlib.util
from collections.abc import Iterator, Mapping

from bertsmith.text.segmentation import CONTINUATION
from bertsmith.text.vocabulary import SPECIAL_TOKENS

_LINE_WORDS = 1 << 12


def is_installed() -> bool:
    """Whether the library is there; bertsmith itself does without it."""
    return importlib.util.find_spec("tokenizers") is not None


def learn_with_library(
    counts: Mapping[str, int],
    vocab_size: int,
    *,
    alphabet_size: int,
    min_frequency: int,
) -> list[str]:
    """Learn with the library's WordPieceTrainer, which merges the most frequent pair.

    Args:
        counts: words as our tokenizer splits them; the library does not split them further.
        alphabet_size: how many characters the library may keep.
    """
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from tokenizers.trainers import WordPieceTrainer

    tokenizer = Tokenizer(WordPiece())
    tokenizer.pre_tokenizer = WhitespaceSplit()
    trainer = WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        limit_alphabet=alphabet_size,
        special_tokens=list(SPECIAL_TOKENS),
        continuing_subword_prefix=CONTINUATION,
        show_progress=False,
    )
    tokenizer.train_from_iterator(_lines(counts), trainer)
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def _lines(counts: Mapping[str, int]) -> Iterator[str]:
    """Text in which each word occurs as often as counted, a few thousand times a line."""
    for word in sorted(counts):
        lines, rest = divmod(counts[word], _LINE_WORDS)
        for length in [_LINE_WORDS] * lines + [rest]:
            yield f"{word} " * length

"""Training of vocabularies by the tokenizers library: unigram models, and WordPiece to compare."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from bertsmith.errors import ConfigError, option
from bertsmith.system.compute import is_installed
from bertsmith.system.json_text import parse_json
from bertsmith.vocabulary.alphabet import check_size, choose_alphabet
from bertsmith.vocabulary.segmentation import CONTINUATION
from bertsmith.vocabulary.wordpiece import SPECIAL_TOKENS, LearnedVocabulary

UNIGRAM_SPECIAL_TOKENS = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
"""ALBERT's special tokens, in the order of their ids in ALBERT."""

WORDS_PER_LINE = 1 << 12
"""Maximum number of repetitions of a word in a line for the library, so that lines stay short."""


def learn_with_library(
    counts: Mapping[str, int], vocab_size: int, *, alphabet_size: int, min_frequency: int
) -> list[str]:
    """Train WordPiece with the library, which merges the most frequent pair.

    Args:
        counts: words as our tokenizer splits them; the library does not split them further.
        alphabet_size: number of characters that the library may keep.
    """
    from tokenizers import models, trainers

    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        limit_alphabet=alphabet_size,
        special_tokens=list(SPECIAL_TOKENS),
        continuing_subword_prefix=CONTINUATION,
        show_progress=False,
    )
    ids = _train(models.WordPiece(), trainer, counts).get_vocab()
    return sorted(ids, key=ids.__getitem__)


def learn_unigram(
    counts: Mapping[str, int], vocab_size: int, *, character_coverage: float = 0.9999
) -> LearnedVocabulary:
    """Train a unigram model with the library (Kudo 2018, section 3.2).

    Args:
        counts: words, each with `▁` before it, of any length: in languages without spaces they are
            clauses.
        character_coverage: share of all characters that must have a token. The rarest characters
            beyond it divide a word, and tokens are learned from the parts between them.

    Raises:
        ConfigError: the library is not installed, or `vocab_size` cannot hold the alphabet.
    """
    if not is_installed("tokenizers"):
        raise ConfigError(
            f"{option('kind', 'unigram')} is learned by the tokenizers library, which is not "
            f"installed. Run 'pip install tokenizers', or choose {option('kind', 'wordpiece')} or "
            "byte-bpe."
        )
    from tokenizers import models, trainers

    alphabet, dropped = choose_alphabet(counts, character_coverage)
    characters = set(alphabet)
    covered = {word: count for word, count in counts.items() if characters.issuperset(word)}
    parts = Counter(covered)
    for word in counts.keys() - covered.keys():
        spaced = "".join(char if char in characters else " " for char in word)
        for part in spaced.split():
            parts[part] += counts[word]
    check_size(vocab_size, len(UNIGRAM_SPECIAL_TOKENS), len(alphabet), character_coverage)
    trainer = trainers.UnigramTrainer(
        vocab_size=vocab_size,
        special_tokens=list(UNIGRAM_SPECIAL_TOKENS),
        unk_token="<unk>",
        initial_alphabet=alphabet,
        show_progress=False,
    )
    trained = parse_json(_train(models.Unigram(), trainer, parts).to_str())
    # A special token that also occurs in the text can be learned a second time.
    pieces: dict[str, float] = {}
    for piece, score in trained["model"]["vocab"]:
        pieces.setdefault(piece, score)
    return LearnedVocabulary(
        tokens=list(pieces),
        alphabet=alphabet,
        dropped_characters=dropped,
        skipped_words=sum(counts.values()) - sum(covered.values()),
        scores=list(pieces.values()),
    )


def _train(model: Any, trainer: Any, counts: Mapping[str, int]) -> Any:
    """Train a model of the library on counted words; return the library's tokenizer."""
    from tokenizers import Tokenizer
    from tokenizers.pre_tokenizers import WhitespaceSplit

    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.train_from_iterator(_lines(counts), trainer)
    return tokenizer


def _lines(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield lines that together repeat each word as often as it was counted."""
    for word in sorted(counts):
        num_lines, rest = divmod(counts[word], WORDS_PER_LINE)
        for num_repetitions in [WORDS_PER_LINE] * num_lines + [rest]:
            yield f"{word} " * num_repetitions

"""Extension of a tokenizer by tokens learned from texts of a domain.

Existing tokens keep their ids, so the tokenizer's model can be continued: only the new tokens need
new embeddings (`bertsmith pretrain --from`). A new unigram token's probability is its share of all
tokens in the texts' words (Kudo 2018, section 3.2), but at least a little above the product of its
parts' probabilities: otherwise no word would be cut into the new token.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bertsmith.errors import CheckpointError, ConfigError, option
from bertsmith.model.hub import find_checkpoint
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.byte_bpe import ByteBpeTokenizer
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.unigram import Unigram, UnigramTokenizer
from bertsmith.tokenization.unigram_files import ends_number_with_comma
from bertsmith.tokenization.wordpiece import WordPieceTokenizer
from bertsmith.vocabulary.byte_bpe import extend_byte_bpe
from bertsmith.vocabulary.counting import count_texts
from bertsmith.vocabulary.extension import SURPLUS, check_num_new, learn_extension
from bertsmith.vocabulary.pruning import count_ids, drop_least_used
from bertsmith.vocabulary.report import TokenizerReport
from bertsmith.vocabulary.settings import ExtensionSettings
from bertsmith.vocabulary.stats import TokenizerStats, tokenizer_stats
from bertsmith.vocabulary.wordpiece import UnprefixedLearner, choose_alphabet

MARGIN = 1e-6
"""Least excess of a new token's score over the sum of its parts' scores; above rounding errors."""


def extend_unigram(
    tokenizer: UnigramTokenizer,
    counts: Mapping[str, int],
    num_new: int,
    *,
    min_frequency: int = 2,
    character_coverage: float = 0.9999,
) -> UnigramTokenizer:
    """Extend the tokenizer by up to `num_new` tokens, new characters first.

    Args:
        counts: words as `UnigramTokenizer.words` gives them, with their counts.
        min_frequency: the lowest frequency of a pair that is merged.
        character_coverage: share of the texts' characters that must be known afterwards.

    Raises:
        ConfigError: `num_new` is below the number of characters that the tokenizer lacks, or every
            word has a character that stays unknown.
    """
    least = min(tokenizer.scores)
    old = list(tokenizer.vocab)
    scores = [*tokenizer.scores, *[least] * (len(old) - tokenizer.num_pieces)]
    alphabet, _ = choose_alphabet(counts, character_coverage)
    single = [character for character in alphabet if character not in set(old)]
    check_num_new(num_new, len(single), character_coverage)
    start = [*old, *single]
    score_of = dict(zip(start, [*scores, *[least] * len(single)], strict=True))
    model = Unigram(start, list(score_of.values()), tokenizer.unk_id)
    cuts = {word: [piece.id for piece in model.cut(word)] for word in counts}
    words = {word: counts[word] for word, ids in cuts.items() if tokenizer.unk_id not in ids}
    if not words:
        advice = "Give other texts."
        if character_coverage < 1:
            advice = f"Give other texts, or a higher {option('character_coverage')}."
        raise ConfigError(
            "Each word of the texts has a character that the tokenizer does not know, even with "
            f"{option('character_coverage', character_coverage)}. {advice}"
        )
    learner = UnprefixedLearner(
        words, start, min_frequency, cut=lambda word: [start[i] for i in cuts[word]]
    )
    size = len(old) + num_new
    learner.grow(size + round(SURPLUS * num_new))
    frequencies = learner.frequencies()
    for piece, frequency in zip(learner.texts[len(old) :], frequencies[len(old) :], strict=True):
        parts = sum(score_of[part.token] for part in model.cut(piece)) + MARGIN
        share = math.log(max(frequency, 1) / sum(frequencies))
        score_of[piece] = max(share, parts, least)

    def count_use(pieces: Sequence[str]) -> Counter[int]:
        cut = Unigram(pieces, [score_of[piece] for piece in pieces], tokenizer.unk_id).cut
        return count_ids(lambda word: [piece.id for piece in cut(word)], words)

    # ALBERT reads `9,` as two tokens.
    new = [each for each in learner.texts[len(start) :] if not ends_number_with_comma(each)]
    chosen = drop_least_used([*start, *new], len(start), size, count_use)
    return UnigramTokenizer(chosen, [score_of[piece] for piece in chosen], **tokenizer.settings())


@dataclass
class ExtensionReport:
    """Report of extension: texts read, tokens added, statistics before and after."""

    reading: TokenizerReport = field(default_factory=TokenizerReport)
    num_old: int = 0
    added: tuple[str, ...] = ()
    stats: dict[str, tuple[TokenizerStats, TokenizerStats]] = field(default_factory=dict)
    """Statistics before and after, by texts: `learned from`, and `held out` if there are any."""


def extend_tokenizer(
    settings: ExtensionSettings,
) -> tuple[Tokenizer, ExtensionReport]:
    """Learn new tokens, which do not depend on the order of the texts, and append them.

    Raises:
        CheckpointError: there is no tokenizer, or one that cannot be extended.
        InputError: a file cannot be read, or the texts have no words.
        ConfigError: fewer new tokens are asked for than there are new characters.
    """
    source = settings.from_
    old = load_tokenizer(source if source.exists() else find_checkpoint(source))
    check_extensible(old, source)
    report = ExtensionReport(num_old=old.vocab_size)
    counts, held_out = count_texts(settings, settings.texts, old.words, report.reading)
    tokenizer = add_learned_tokens(old, counts, settings)
    report.added = tuple(tokenizer.vocab[old.vocab_size :])
    for name, words in (("learned from", counts), ("held out", held_out)):
        if words:
            report.stats[name] = tokenizer_stats(old, words), tokenizer_stats(tokenizer, words)
    return tokenizer, report


def add_learned_tokens(
    old: Tokenizer, counts: Counter[str], settings: ExtensionSettings
) -> Tokenizer:
    """Learn `settings.add` tokens from the counts of words, as tokenizers of this kind do."""
    least = settings.min_frequency
    if isinstance(old, ByteBpeTokenizer):
        return extend_byte_bpe(old, counts, settings.add, min_frequency=least)
    coverage = settings.character_coverage
    if isinstance(old, UnigramTokenizer):
        return extend_unigram(
            old, counts, settings.add, min_frequency=least, character_coverage=coverage
        )
    assert isinstance(old, WordPieceTokenizer)
    added = learn_extension(
        old.vocab,
        old.unk_id,
        counts,
        settings.add,
        max_chars=old.max_input_chars_per_word,
        min_frequency=least,
        character_coverage=coverage,
    )
    return WordPieceTokenizer([*old.vocab, *added], **old.settings())


def check_extensible(tokenizer: Tokenizer, path: Path) -> None:
    """Refuse a tokenizer with added tokens that would become ordinary ones.

    New tokens come after all old ids, those of added tokens included, so added tokens become part
    of the vocabulary. That changes nothing as long as no word of a text can look like an added
    token. (Byte-level BPE makes tokens by merges, and no merge makes an added token. In a unigram
    model an added token is as unlikely as the least likely token.)

    Raises:
        CheckpointError: an added token of a WordPiece tokenizer is a word.
    """
    if not isinstance(tokenizer, WordPieceTokenizer):
        return
    for token in tokenizer.vocab[tokenizer.num_pieces :]:
        if list(tokenizer.words(token)) == [token]:
            raise CheckpointError(
                f"{path}: its added token {token!r} is a word, and would be cut from longer words "
                "if tokens were put behind it. Extend a tokenizer without added words."
            )

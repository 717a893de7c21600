"""Extension of a unigram model by tokens learned from other texts.

The most frequent pairs of neighbouring tokens are merged to new tokens, as in byte-pair encoding. A
new token's score is the log of its share of all tokens in the texts' words (Kudo 2018, section
3.2). It is raised, if necessary, to a little above the sum of the scores of the old tokens in place
of which it stands: with a lower score, no word would be cut into the new token.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from bertsmith.errors import ConfigError, option
from bertsmith.tokenization.unigram import UnigramTokenizer
from bertsmith.tokenization.unigram_files import ends_number_with_comma
from bertsmith.tokenization.unigram_model import Unigram
from bertsmith.vocabulary.alphabet import check_num_new, choose_alphabet
from bertsmith.vocabulary.pruning import SURPLUS, count_ids, drop_least_used
from bertsmith.vocabulary.wordpiece import UnprefixedLearner

MARGIN = 1e-6
"""Minimum by which a new token's score exceeds the sum of its parts' scores; above rounding errors.
"""


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
    lowest_score = min(tokenizer.scores)
    old = list(tokenizer.vocab)
    num_added = len(old) - tokenizer.num_pieces  # added tokens, which have no score
    scores = [*tokenizer.scores, *[lowest_score] * num_added]
    alphabet, _ = choose_alphabet(counts, character_coverage)
    known = set(old)
    new_characters = [character for character in alphabet if character not in known]
    check_num_new(num_new, len(new_characters), character_coverage)
    initial = [*old, *new_characters]  # the tokens from which learning starts
    score_of = dict(zip(initial, [*scores, *[lowest_score] * len(new_characters)], strict=True))
    model = Unigram(initial, list(score_of.values()), tokenizer.unk_id)
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
        words, initial, min_frequency, cut=lambda word: [initial[id_] for id_ in cuts[word]]
    )
    size = len(old) + num_new
    learner.grow(size + round(SURPLUS * num_new))
    frequencies = learner.frequencies()
    total = sum(frequencies)
    for piece, frequency in zip(learner.texts[len(old) :], frequencies[len(old) :], strict=True):
        log_share = math.log(max(frequency, 1) / total)
        parts_score = sum(score_of[part.token] for part in model.cut(piece))
        # A score below the lowest one would make unknown characters less likely.
        score_of[piece] = max(log_share, parts_score + MARGIN, lowest_score)

    def count_use(pieces: Sequence[str]) -> Counter[int]:
        cut = Unigram(pieces, [score_of[piece] for piece in pieces], tokenizer.unk_id).cut
        return count_ids(lambda word: [piece.id for piece in cut(word)], words)

    # ALBERT's tokenizer divides a token such as `9,`, so such tokens would never be used.
    learned = learner.texts[len(initial) :]
    merged = [piece for piece in learned if not ends_number_with_comma(piece)]
    kept = drop_least_used([*initial, *merged], len(initial), size, count_use)
    return UnigramTokenizer(kept, [score_of[piece] for piece in kept], **tokenizer.settings())

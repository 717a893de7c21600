"""Extension of a unigram tokenizer by tokens learned from other texts.

The old tokens cut the words, then the most frequent neighbours are merged. A new token's
probability is its share of all tokens of these words, as in learning a model (Kudo 2018, section
3.2), but never less than that of its parts together: else no text would be cut into it. The old
probabilities stay, so a word without a new token is tokenized as before.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from bertsmith.errors import ConfigError
from bertsmith.tokenization.unigram import Unigram, UnigramTokenizer
from bertsmith.vocabulary.extension import check_room
from bertsmith.vocabulary.pruning import count_ids, drop_least_used
from bertsmith.vocabulary.wordpiece import JoiningLearner, choose_alphabet

MARGIN = 1e-6
"""Least margin of a new token's score over its parts', so that rounding decides nothing."""

NUMBER_WITH_COMMA = re.compile(r"\d,$")
"""End of tokens that are not added: ALBERT reads `9,` as two tokens."""


def extend_unigram(
    tokenizer: UnigramTokenizer,
    counts: Mapping[str, int],
    num_new: int,
    *,
    min_frequency: int = 2,
    character_coverage: float = 0.9999,
    surplus: float = 0.2,
) -> UnigramTokenizer:
    """Extend the tokenizer by up to `num_new` tokens, new characters first.

    Args:
        counts: words as `UnigramTokenizer.words` gives them, with their counts.
        min_frequency: the lowest frequency of a pair that is merged.
        character_coverage: share of the characters that must be known in the end.
        surplus: how many more to learn before the least used are dropped, as a share.

    Raises:
        ConfigError: `num_new` does not hold the characters that the tokenizer lacks, or every word
            has an unknown one.
    """
    least = min(tokenizer.scores)
    old = list(tokenizer.vocab)
    scores = [*tokenizer.scores, *[least] * (len(old) - tokenizer.num_pieces)]
    alphabet, _ = choose_alphabet(counts, character_coverage)
    single = [character for character in alphabet if character not in set(old)]
    check_room(num_new, len(single), character_coverage)
    start = [*old, *single]
    known = dict(zip(start, [*scores, *[least] * len(single)], strict=True))
    model = Unigram(start, list(known.values()), tokenizer.unk_id)
    cuts = {word: [piece.id for piece in model.cut(word)] for word in counts}
    words = {word: counts[word] for word, ids in cuts.items() if tokenizer.unk_id not in ids}
    if not words:
        raise ConfigError(
            "--texts: each word has a character that the tokenizer does not know, beyond a "
            f"character coverage of {character_coverage}. Raise it, or give other texts."
        )
    learner = JoiningLearner(
        words, start, min_frequency, cut=lambda word: [start[i] for i in cuts[word]]
    )
    size = len(old) + num_new
    learner.grow(size + round(surplus * num_new))
    frequencies = learner.frequencies()
    for piece, frequency in zip(learner.texts[len(old) :], frequencies[len(old) :], strict=True):
        parts = sum(known[part.token] for part in model.cut(piece)) + MARGIN
        share = math.log(max(frequency, 1) / sum(frequencies))
        known[piece] = max(share, parts, least)

    def count_use(pieces: Sequence[str]) -> Counter[int]:
        cut = Unigram(pieces, [known[piece] for piece in pieces], tokenizer.unk_id).cut
        return count_ids(lambda word: [piece.id for piece in cut(word)], words)

    new = [piece for piece in learner.texts[len(start) :] if not NUMBER_WITH_COMMA.search(piece)]
    kept = drop_least_used([*start, *new], len(start), size, count_use)
    return UnigramTokenizer(kept, [known[piece] for piece in kept], **tokenizer.settings())

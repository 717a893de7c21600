"""A unigram tokenizer and the words of other texts → the tokenizer with new pieces behind its own.

The words are cut by the old pieces, and the neighbours that meet most often become one piece. What
a new piece is worth beside the old ones is its share of all pieces of these words, as in learning a
model (Kudo 2018, section 3.2), but never less than its parts together: else no text would be cut
into it. The old probabilities stay, so a word without a new piece in it is cut as before.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from bertsmith.errors import ConfigError
from bertsmith.text.extension import check_room
from bertsmith.text.pruning import count_ids, drop_least_used
from bertsmith.text.unigram import Unigram, UnigramTokenizer
from bertsmith.text.vocabulary import PieceLearner, choose_alphabet, frequency_score

MARGIN = 1e-6
"""How much likelier than its parts a new piece is at least, so that rounding decides nothing."""

NUMBER_WITH_COMMA = re.compile(r"\d,$")
"""ALBERT reads `9,` as two pieces."""


class JoiningLearner(PieceLearner):
    """Merges neighbouring pieces, the most frequent first; of equals the older."""

    continuation = ""

    def _precedence(self, piece: int) -> int:
        return piece

    def frequencies(self) -> list[int]:
        """How often each piece stands in the words, as they are divided now."""
        found: list[int] = self._segmentation.frequency[: len(self.texts)].tolist()
        return found


def extend_unigram(
    tokenizer: UnigramTokenizer,
    counts: Mapping[str, int],
    num_new: int,
    *,
    min_frequency: int = 2,
    character_coverage: float = 0.9999,
    surplus: float = 0.2,
) -> UnigramTokenizer:
    """The tokenizer with up to `num_new` pieces more, new characters first.

    Args:
        counts: words as `UnigramTokenizer.words` gives them, with their counts.
        min_frequency: a pair seen less often is not worth a piece.
        character_coverage: which share of the characters must be known in the end.
        surplus: how many more to learn before the least used are dropped, as a share.

    Raises:
        ConfigError: `num_new` does not hold the characters that the tokenizer lacks.
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
        words,
        start,
        frequency_score,
        min_frequency,
        cut=lambda word: [start[i] for i in cuts[word]],
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

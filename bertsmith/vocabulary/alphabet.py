"""Characters that a vocabulary holds as tokens: their choice, and whether all have room."""

from collections import Counter
from collections.abc import Iterable, Mapping

from bertsmith.errors import ConfigError, option
from bertsmith.vocabulary.segmentation import CONTINUATION


def check_size(
    vocab_size: int, num_special: int, num_single: int, character_coverage: float
) -> int:
    """Check that a vocabulary has room for special tokens and tokens of a single character.

    `num_single` counts the latter. In WordPiece a character may have two: itself, and with ##.

    Returns:
        The number of both kinds of tokens.

    Raises:
        ConfigError: `vocab_size` is too small for them.
    """
    minimum = num_special + num_single
    if vocab_size < minimum:
        raise ConfigError(
            f"{option('vocab_size')}: {vocab_size} is too small for {num_special} special tokens "
            f"and {num_single} tokens of a single character. Choose at least {minimum}, or lower "
            f"{option('character_coverage')}, which is {character_coverage}."
        )
    return minimum


def choose_alphabet(
    counts: Mapping[str, int], character_coverage: float
) -> tuple[list[str], dict[str, int]]:
    """Split the characters of words into frequent ones (sorted) and dropped ones (with counts).

    `counts` has the number of occurrences of each word. The frequent characters make up at least
    the share `character_coverage` of all characters, and are as few as that allows.

    >>> choose_alphabet({"aab": 3, "c": 1}, character_coverage=0.85)
    (['a', 'b'], {'c': 1})
    """
    frequency: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            frequency[character] += count
    max_dropped = frequency.total() * (1 - character_coverage)
    ranked = sorted(frequency.items(), key=lambda item: (-item[1], item[0]))
    num_dropped = 0
    num_frequent = len(ranked)
    while num_frequent and num_dropped + ranked[num_frequent - 1][1] <= max_dropped:
        num_frequent -= 1
        num_dropped += ranked[num_frequent][1]
    return sorted(character for character, _ in ranked[:num_frequent]), dict(ranked[num_frequent:])


def single_character_pieces(alphabet: Iterable[str], words: Iterable[str]) -> list[str]:
    """List the tokens that learning starts from.

    Each character is a token. A character of a longer word also gets a token with ##, so that it is
    known at the start and inside of words. A character that is always a word by itself, as Chinese
    characters and punctuation are, gets no token with ##.

    >>> single_character_pieces("!ab", ["ab", "!"])
    ['!', 'a', 'b', '##a', '##b']
    """
    in_longer_words = {character for word in words if len(word) > 1 for character in word}
    alphabet = list(alphabet)
    return alphabet + [CONTINUATION + char for char in alphabet if char in in_longer_words]


def check_num_new(num_new: int, num_characters: int, character_coverage: float) -> None:
    """Check that there are at least as many new tokens as new characters.

    Raises:
        ConfigError: there are more new characters than new tokens.
    """
    if num_characters > num_new:
        raise ConfigError(
            f"{option('add')}: found {num_new:,}, but the characters of these texts alone need "
            f"{num_characters:,} new tokens. Add as many or lower {option('character_coverage')} "
            f"({character_coverage})."
        )

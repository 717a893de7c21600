"""Learning of byte-level BPE: tokens and merges from word counts.

Starting from the 256 bytes, the most frequent pair of neighbouring tokens is merged until the
vocabulary is full (Sennrich et al. 2016). Of equally frequent pairs the one whose tokens are older
is merged. The result equals that of the `tokenizers` library (BpeTrainer with the alphabet of
ByteLevel).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from bertsmith.errors import ConfigError, option
from bertsmith.tokenization.byte_bpe import BYTE_CHARACTERS, ByteBpeTokenizer
from bertsmith.vocabulary.segmentation import Cut
from bertsmith.vocabulary.wordpiece import LearnedVocabulary, UnprefixedLearner

BYTE_BPE_SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
"""RoBERTa's special tokens; the first four have the same ids as in RoBERTa."""


class MergeLearner(UnprefixedLearner):
    """Learner that records the merged pairs, in order, except those in `merged_pairs`.

    It learns from `words`, spelled with a character for each byte, and their counts. Its tokens so
    far are `texts`, which begin with `pieces`; an `UnprefixedLearner` merges the most frequent pair
    until `grow` has reached a number of tokens.

    In an extension, `merged_pairs` are the merges that the old tokenizer has already. `cut` divides
    a word into the tokens from which learning starts: by default its characters, one for each byte.
    """

    def __init__(
        self,
        words: Mapping[str, int],
        pieces: Iterable[str],
        min_frequency: int,
        cut: Cut = list,
        merged_pairs: Collection[tuple[str, str]] = (),
    ) -> None:
        super().__init__(words, pieces, min_frequency, cut)
        self.merges: list[tuple[str, str]] = []
        self._merged_pairs = frozenset(merged_pairs)

    def merge(self, left: int, right: int) -> None:
        """Merge the pair of these token ids wherever it occurs, and record it."""
        pair = self.texts[left], self.texts[right]
        if pair not in self._merged_pairs:
            self.merges.append(pair)
        super().merge(left, right)


def learn_byte_bpe(
    counts: Mapping[str, int], vocab_size: int, *, min_frequency: int = 2
) -> LearnedVocabulary:
    """Learn up to `vocab_size` tokens from counts of words (Sennrich et al. 2016, section 3.2).

    Words are the matches of GPT-2's regular expression. The vocabulary is smaller than `vocab_size`
    where no pair is left that occurs at least `min_frequency` times.

    Raises:
        ConfigError: `vocab_size` cannot hold the special tokens and the bytes.
    """
    alphabet = sorted(BYTE_CHARACTERS)
    minimum = len(BYTE_BPE_SPECIAL_TOKENS) + len(alphabet)
    if vocab_size < minimum:
        raise ConfigError(
            f"{option('vocab_size')}: {vocab_size} is too small for {len(BYTE_BPE_SPECIAL_TOKENS)} "
            f"special tokens and the {len(alphabet)} bytes. Choose at least {minimum}."
        )
    learner = MergeLearner(as_bytes(counts), alphabet, min_frequency)
    learner.grow(vocab_size - len(BYTE_BPE_SPECIAL_TOKENS))
    return LearnedVocabulary(
        tokens=[*BYTE_BPE_SPECIAL_TOKENS, *learner.texts],
        alphabet=alphabet,
        dropped_characters={},
        skipped_words=0,
        merges=learner.merges,
    )


def extend_byte_bpe(
    tokenizer: ByteBpeTokenizer, counts: Mapping[str, int], num_new: int, *, min_frequency: int = 2
) -> ByteBpeTokenizer:
    """Extend the tokenizer by up to `num_new` tokens learned from word counts.

    The old merges cut the words, and the new ones merge the resulting tokens. New merges come after
    all old ones, so a word without a new token is tokenized as before.
    """

    def cut(word: str) -> list[str]:
        return [tokenizer.vocab[id_] for id_ in tokenizer.merge_characters(word)]

    learner = MergeLearner(as_bytes(counts), tokenizer.vocab, min_frequency, cut, tokenizer.merges)
    learner.grow(tokenizer.vocab_size + num_new)
    merges = [*tokenizer.merges, *learner.merges]
    return ByteBpeTokenizer(learner.texts, merges, **tokenizer.settings())


def as_bytes(counts: Mapping[str, int]) -> Counter[str]:
    """Spell words with one character for each byte (`BYTE_CHARACTERS`)."""
    words: Counter[str] = Counter()
    for word, count in counts.items():
        words["".join(map(BYTE_CHARACTERS.__getitem__, word.encode()))] += count
    return words

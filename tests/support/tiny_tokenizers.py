"""A small tokenizer of each kind, over the same words, for tests of several rooms."""

from collections import Counter

from bertsmith.tokenization.bpe_words import clean_words
from bertsmith.tokenization.byte_bpe import ByteBpeTokenizer
from bertsmith.tokenization.unigram import UnigramTokenizer
from bertsmith.tokenization.wordpiece import WordPieceTokenizer
from bertsmith.vocabulary.byte_bpe import learn_byte_bpe

TEXT = (
    "The river runs down to the sea, and the sea is wide. Who runs the river? Nobody runs it! "
    "A café in Zürich doesn't open at 12; it's 漢字 on the 2nd door, they've said. "
) * 3
LETTERS = sorted(
    set("abcdefghijklmnopqrstuvwxyz0123456789.,!?;'\"()-漢字é") | set(TEXT.lower()) - {" "}
)
WORDS = ["the", "river", "run", "runs", "down", "to", "sea", "and", "is", "wide", "who", "it"]


def tiny_wordpiece(**settings):
    inner = [f"##{letter}" for letter in LETTERS]
    pieces = [*LETTERS, *inner, *WORDS[1:3], "##s", *WORDS[4:], "the"]
    unique = list(dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces]))
    return WordPieceTokenizer(unique, **settings)


def tiny_byte_bpe(**settings):
    learned = learn_byte_bpe(Counter(clean_words(TEXT)), 330)
    return ByteBpeTokenizer(learned.tokens, learned.merges, **settings)


def unigram_pieces():
    """Return pieces and their scores: longer pieces have higher scores, and no two sums tie."""
    pieces = ["▁", *LETTERS, *(f"▁{word}" for word in WORDS), "er", "un", "iv", "in", "▁a", "9,"]
    scores = [-2.0 - 7.0 / len(piece) - 0.013 * index for index, piece in enumerate(pieces)]
    specials = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    return [*specials, *pieces], [*[0.0] * len(specials), *scores]


def tiny_unigram(**settings):
    return UnigramTokenizer(*unigram_pieces(), **settings)


TINY = {"wordpiece": tiny_wordpiece, "byte-bpe": tiny_byte_bpe, "unigram": tiny_unigram}

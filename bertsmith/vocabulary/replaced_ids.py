"""Find the ids by which an old tokenizer encodes the text of a new token.

When a model is continued with an extended tokenizer, the new token's embedding starts as the mean
of the embeddings of these ids.
"""

from collections.abc import Iterable, Iterator, Sequence

from bertsmith.tokenization.byte_bpe import ByteBpeTokenizer
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.unigram import UnigramTokenizer
from bertsmith.tokenization.wordpiece import WordPiece
from bertsmith.vocabulary.segmentation import CONTINUATION

# Stands for the start of the word before a token such as `##kens`. A tokenizer removes this
# character from every text, so no other token contains it.
_WORD_START = "\0"

# More characters than any token has.
_NO_LIMIT = 1 << 30


def replaced_ids(old: Tokenizer, new: Iterable[str]) -> Iterator[tuple[int, ...]]:
    """Yield for each new token the ids of the tokens into which the old tokenizer cuts it.

    The tuple is empty if the old tokenizer cannot cut the new token. The old tokenizer may be of
    any kind.
    """
    if isinstance(old, ByteBpeTokenizer):
        for piece in new:
            yield tuple(old.merge_characters(piece))
    elif isinstance(old, UnigramTokenizer):
        for piece in new:
            ids = tuple(old.word_ids(piece))
            yield () if old.unk_id in ids else ids
    else:
        learned = old.vocab[: old.num_pieces]  # without added tokens
        yield from wordpiece_ids_of(learned, old.unk_id, new)


def wordpiece_ids_of(
    vocab: Sequence[str], unk_id: int, new: Iterable[str]
) -> Iterator[tuple[int, ...]]:
    """Yield for each new token the ids into which WordPiece, without added tokens, cuts it.

    The tuple is empty if `vocab` cannot cut the new token. A token that continues a word, such as
    `##kens`, is cut only into tokens that continue a word:

    >>> list(wordpiece_ids_of(["[UNK]", "to", "##ken", "ken", "##s"], 0, ["token", "##kens", "é"]))
    [(1, 2), (2, 4), ()]
    """
    wordpiece = WordPiece([*vocab, _WORD_START], unk_id, max_chars=_NO_LIMIT)
    for piece in new:
        continues = piece.startswith(CONTINUATION)
        word = _WORD_START + piece.removeprefix(CONTINUATION) if continues else piece
        ids = wordpiece.ids(word)
        if ids == (unk_id,):
            ids = ()
        elif continues:
            ids = ids[1:]  # without the start of the word
        yield ids

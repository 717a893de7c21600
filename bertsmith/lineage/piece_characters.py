"""Characters of the pieces of a vocabulary, as an ELMo reads them: the bytes of their UTF-8.

The ids of the characters are those of the released ELMo (Peters et al. 2018). 0 stands for no piece
at all, and is not used here. 1 to 256 are the bytes, each by one higher. 257 and 258 stand for
[CLS] and [SEP], the tokens around a text; 259 and 260 are the marks before and after a piece; 261
is padding.
"""

import numpy as np
from numpy.typing import NDArray

from bertsmith.tokenization.piece_bytes import bytes_of_pieces
from bertsmith.tokenization.tokenizer import Tokenizer

NUM_CHARACTERS = 262
TEXT_BEGIN, TEXT_END, PIECE_BEGIN, PIECE_END, PADDING = range(257, NUM_CHARACTERS)


def piece_characters(tokenizer: Tokenizer, length: int) -> NDArray[np.int16]:
    """Return the characters of each piece, int16 [vocabulary, length], padded at the end.

    A piece of WordPiece has the characters that it has in the vocabulary, with `##`. A piece of
    byte-level BPE or unigram has the characters that it stands for in a text, with its space.
    Pieces of more than `length - 2` bytes are cut.
    """
    table = np.full((tokenizer.vocab_size, length), PADDING, dtype=np.int16)
    text_marks = {tokenizer.cls_id: TEXT_BEGIN, tokenizer.sep_id: TEXT_END}
    for id_, piece_bytes in enumerate(bytes_of_pieces(tokenizer)):
        if id_ in text_marks:
            characters = [text_marks[id_]]
        else:
            characters = [byte + 1 for byte in piece_bytes[: length - 2]]
        row = [PIECE_BEGIN, *characters, PIECE_END]
        table[id_, : len(row)] = row
    return table

"""Words and pieces: ids of the reference for pre-split words, and no word without a piece."""

from itertools import islice

import numpy as np
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.data.windows import cut_words, deciding_windows
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.wordpiece import WordPieceTokenizer

ODD = ["\u200b", "\x07", "\u00ad", "\ufeff", " ", "\u3000", "\ud800", ""]


def library(data_dir, name):
    return tokenizers.Tokenizer.from_file(str(data_dir / "vocabs" / name / "tokenizer.json"))


def test_real_sentences_have_the_reference_ids(data_dir):
    from bertsmith.data.tagged_files import TaggedReader

    name = "bert-base-cased"
    ours = load_tokenizer(data_dir / "vocabs" / name)
    theirs = library(data_dir, name)
    reader = TaggedReader(data_dir / "conll2003" / "eng.testb")
    sentences = [sentence.words for sentence in islice(reader, 211)]
    encodings = theirs.encode_batch(sentences, is_pretokenized=True, add_special_tokens=False)
    for pieces, encoding in zip(cut_words(ours, sentences), encodings, strict=True):
        assert pieces.ids.tolist() == encoding.ids
        changes = np.diff(np.array(encoding.word_ids), prepend=-1)
        assert pieces.first_pieces.tolist() == np.flatnonzero(changes).tolist()


TOKENIZER = WordPieceTokenizer(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a", "b", "中"]
)


@given(st.lists(st.lists(st.sampled_from(["a", "aaa", "ab", "中a", *ODD]), max_size=6), max_size=5))
def test_every_word_has_a_piece_and_sentences_do_not_touch(sentences):
    found = cut_words(TOKENIZER, sentences)
    assert len(found) == len(sentences)
    for words, pieces in zip(sentences, found, strict=True):
        expected, firsts = [], []
        for word in words:
            firsts.append(len(expected))
            expected += TOKENIZER.encode_ids(word) or [TOKENIZER.unk_id]
        assert pieces.ids.tolist() == expected
        assert pieces.first_pieces.tolist() == firsts


def test_the_window_with_most_context_decides():
    windows = [(0, 11), (6, 17), (12, 23)]
    decides = deciding_windows(np.arange(23), windows)
    assert decides.tolist() == [0] * 9 + [1] * 6 + [2] * 8
    for place, window in enumerate(decides):
        contexts = [min(place - start, end - 1 - place) for start, end in windows]
        assert contexts[window] == max(contexts) >= 0

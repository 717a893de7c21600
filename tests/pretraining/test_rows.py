"""Rows and their words: the text in its frame, and no word that an end of a segment cut."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_runs import small_corpus

from bertsmith.data.corpus import Corpus
from bertsmith.pretraining.chinese_words import MaximumMatching
from bertsmith.pretraining.masking import MaskingVocabulary
from bertsmith.pretraining.rows import RowReader
from bertsmith.pretraining.segments import Segments, passages_around, windows_around
from bertsmith.pretraining.word_bounds import WordBounds
from bertsmith.tokenization.wordpiece import WordPieceTokenizer

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = ["two", "week", "##s", "##end", "ago", "the", "un", "##know", "##n", ".", "。"]
CHARACTERS = list("北京大学生在")
TOKENIZER = WordPieceTokenizer([*SPECIAL_TOKENS, *PIECES, *CHARACTERS])


class TwoSeparators(WordPieceTokenizer):
    """The same pieces in rows like RoBERTa's."""

    num_separators = 2
    pair_type_id = 0


LIKE_ROBERTA = TwoSeparators(TOKENIZER.vocab)
TEXT = [
    "Two weeks ago the unknown weekend. Weekends ago!",
    "Unknown.",
    "北京大学生在北京。大学生在 weeks 北京大学 ago。",
    "The week the weeks the weekend the weekends.",
]
WORD_LIST = MaximumMatching(["北京", "北京大学", "学生"])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return Corpus.open(small_corpus(tmp_path_factory.mktemp("words") / "built", TOKENIZER, TEXT))


def reader(corpus, *, chinese=False, tokenizer=TOKENIZER):
    vocabulary = MaskingVocabulary(TOKENIZER.vocab_size, TOKENIZER.mask_id, TOKENIZER.special_ids)
    bounds = WordBounds(TOKENIZER, WORD_LIST if chinese else None)
    return RowReader(corpus, tokenizer, vocabulary.is_special, bounds)


def segments(*rows, are_pairs=True):
    flat = np.array([(*part, row) for row, parts in enumerate(rows) for part in parts])
    return Segments(*flat.T, labels=np.zeros(len(rows), int), are_pairs=are_pairs)


def whole_words(corpus, *, chinese):
    """Start and end of every word of the text, from its tokens as they are written."""
    bounds = corpus.sentence_starts[corpus.document_starts].tolist()
    ids = [corpus.token_ids(start, end) for start, end in pairwise(bounds)]
    tokens = [TOKENIZER.vocab[id_] for id_ in np.concatenate(ids)]
    starts, runs, found = set(corpus.sentence_starts.tolist()), [], []
    for place, token in enumerate(tokens):
        is_chinese = chinese and {token, tokens[place - 1]} <= set(CHARACTERS)
        if token.startswith("##") or (is_chinese and place not in starts):
            runs[-1][1].append(token)
        elif token not in SPECIAL_TOKENS:
            runs.append((place, [token]))
    for place, run in runs:
        for word in WORD_LIST("".join(run)) if chinese and run[0] in CHARACTERS else [run]:
            found.append((place, place + len(word)))  # a character is a token
            place += len(word)
    return found


@pytest.mark.parametrize("tokenizer", [TOKENIZER, LIKE_ROBERTA])
@pytest.mark.parametrize("parts", [[(0, 3)], [(0, 3), (5, 9)]])
def test_a_row_is_what_the_tokenizer_builds(corpus, tokenizer, parts):
    row = tokenizer.build_row([corpus.token_ids(*part) for part in parts])
    found = reader(corpus, tokenizer=tokenizer).read(segments(parts))
    assert found.ids.tolist() == row.ids.tolist()
    assert found.type_ids.tolist() == row.type_ids.tolist()
    words = sum(end - start for start, end in parts)
    assert found.lengths.tolist() == [words + tokenizer.num_special_tokens(len(parts))]


@pytest.mark.parametrize("chinese", [False, True])
@settings(max_examples=30)
@given(data=st.data())
def test_words_of_any_segment_are_those_of_the_text(corpus, chinese, data):
    start = data.draw(st.integers(0, corpus.num_tokens - 1))
    bounds = corpus.sentence_starts[corpus.document_starts]
    last = int(bounds[np.searchsorted(bounds, start, side="right")])
    end = data.draw(st.integers(start + 1, last))
    words = reader(corpus, chinese=chinese).read(segments([(start, end)])).words[1:-1]
    places = [
        np.flatnonzero(words == number) for number in dict.fromkeys(words[words >= 0].tolist())
    ]
    found = [(start + int(own[0]), start + int(own[-1]) + 1) for own in places]
    whole = whole_words(corpus, chinese=chinese)
    assert found == [word for word in whole if start <= word[0] < word[1] <= end]


def test_passages_hold_whole_sentences_and_separators_between_documents(corpus):
    anchors = np.arange(corpus.num_tokens)
    for room in (7, 13, 29):
        passages = passages_around(corpus, anchors, room)
        rows = RowReader(corpus, TOKENIZER, np.zeros(99, bool)).read(passages)
        assert rows.type_ids.sum() == 0
        assert rows.lengths.max() <= room + 2
        sentences = set(corpus.sentence_starts.tolist())
        documents = set(corpus.sentence_starts[corpus.document_starts].tolist())
        for row, parts in enumerate(passages.of_rows()):
            ids = rows.ids[rows.lengths[:row].sum() :][: rows.lengths[row]]
            assert (ids == TOKENIZER.sep_id).sum() == len(parts)
            for (_, end), (start, _) in pairwise(parts):
                assert end == start
                assert end in documents
            start, end = parts[0][0], parts[-1][1]
            is_whole = start in sentences and end in sentences
            assert is_whole or (len(parts) == 1 and end - start == room)
    assert max(map(len, passages.of_rows())) > 1
    assert set(map(len, windows_around(corpus, anchors, 30).segments().of_rows())) == {1}
    # Documents that share a row have one separator between them, whatever the family.
    row = reader(corpus, tokenizer=LIKE_ROBERTA).read(segments([(0, 3), (5, 6)], are_pairs=False))
    assert row.lengths.tolist() == [7]

"""Rows and their words: the text in its frame, and no word that an end of a segment cut."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.data.corpus import CorpusSettings, build_corpus
from bertsmith.data.shards import Corpus
from bertsmith.pretraining.masking import MaskingVocabulary
from bertsmith.pretraining.rows import RowReader, TextRows
from bertsmith.pretraining.segmenters import MaximumMatching
from bertsmith.pretraining.segments import Segments, draw_passages, draw_windows
from bertsmith.pretraining.word_bounds import WordBounds
from bertsmith.tokenization.tokenizer import Tokenizer
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
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("words")
    (folder / "text.txt").write_text("\n\n".join(TEXT), encoding="utf-8")
    built = folder / "built"
    build_corpus([folder / "text.txt"], TOKENIZER, built, CorpusSettings(held_out=0.0))
    return Corpus.open(built)


def reader(corpus: Corpus, *, chinese: bool = False, tokenizer: Tokenizer = TOKENIZER) -> RowReader:
    bounds = WordBounds(TOKENIZER, WORD_LIST if chinese else None)
    is_special = MaskingVocabulary(
        TOKENIZER.vocab_size, TOKENIZER.mask_id, TOKENIZER.special_ids
    ).is_special
    return RowReader(corpus, tokenizer, is_special, bounds)


def segments(*rows: list[tuple[int, int]], are_pairs: bool = True) -> Segments:
    flat = np.array([(*part, row) for row, parts in enumerate(rows) for part in parts])
    return Segments(*flat.T, labels=np.zeros(len(rows), int), are_pairs=are_pairs)


def whole_words(corpus: Corpus, *, chinese: bool) -> list[tuple[int, int]]:
    """Start and end of every word of the text, from its tokens as they are written."""
    found: list[tuple[int, int]] = []
    starts = set(corpus.sentence_starts.tolist())
    tokens = []
    bounds = corpus.sentence_starts[corpus.document_starts].tolist()
    for start, end in pairwise(bounds):
        tokens += [TOKENIZER.vocab[i] for i in corpus.token_ids(start, end).tolist()]
    for place, token in enumerate(tokens):
        if token.startswith("##"):
            found[-1] = (found[-1][0], place + 1)
        elif token not in SPECIAL_TOKENS:
            found.append((place, place + 1))
    if not chinese:
        return found
    merged: list[tuple[int, int]] = []
    place = 0
    while place < len(tokens):
        run = place
        while (
            run < len(tokens) and tokens[run] in CHARACTERS and (run == place or run not in starts)
        ):
            run += 1
        if run == place:
            merged += [word for word in found if word[0] == place]
            place += 1
            continue
        for word in WORD_LIST("".join(tokens[place:run])):
            merged.append((place, place + len(word)))
            place += len(word)
    return merged


def words_of(rows: TextRows) -> list[list[str]]:
    """The words of each row as text; those that may not be hidden are left out."""
    assert rows.words is not None
    found: list[list[str]] = []
    for ids, words in zip(
        np.split(rows.ids, np.cumsum(rows.lengths)[:-1]),
        np.split(rows.words, np.cumsum(rows.lengths)[:-1]),
        strict=True,
    ):
        numbers = [number for number in dict.fromkeys(words.tolist()) if number >= 0]
        found.append([TOKENIZER.decode(ids[words == number].tolist()) for number in numbers])
    return found


def test_the_frame_is_berts(corpus: Corpus) -> None:
    rows = reader(corpus).read(segments([(0, 3), (5, 6)], [(2, 4)]))
    tokens = [TOKENIZER.vocab[i] for i in rows.ids.tolist()]
    assert tokens == [
        "[CLS]", "two", "week", "##s", "[SEP]", "un", "[SEP]", "[CLS]", "##s", "ago", "[SEP]",
    ]  # fmt: skip
    assert rows.type_ids.tolist() == [0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0]
    assert rows.lengths.tolist() == [7, 4]


def test_another_family_has_two_separators_and_no_segment_ids(corpus: Corpus) -> None:
    rows = reader(corpus, tokenizer=LIKE_ROBERTA).read(segments([(0, 3), (5, 6)], [(2, 4)]))
    assert [TOKENIZER.vocab[i] for i in rows.ids[4:6]] == ["[SEP]", "[SEP]"]
    assert rows.lengths.tolist() == [8, 4]
    assert rows.type_ids.sum() == 0
    # Documents that share a row have one separator between them, whatever the family.
    rows = reader(corpus, tokenizer=LIKE_ROBERTA).read(segments([(0, 3), (5, 6)], are_pairs=False))
    assert rows.lengths.tolist() == [7]


@pytest.mark.parametrize("tokenizer", [TOKENIZER, LIKE_ROBERTA])
@pytest.mark.parametrize("parts", [[(0, 3)], [(0, 3), (5, 9)]])
def test_a_row_is_what_the_tokenizer_builds(
    corpus: Corpus, tokenizer: Tokenizer, parts: list[tuple[int, int]]
) -> None:
    row = tokenizer.build_row([corpus.token_ids(*part) for part in parts])
    found = reader(corpus, tokenizer=tokenizer).read(segments(parts))
    assert found.ids.tolist() == row.ids.tolist()
    assert found.type_ids.tolist() == row.type_ids.tolist()
    words = sum(end - start for start, end in parts)
    assert found.lengths.tolist() == [words + tokenizer.num_special_tokens(len(parts))]


def test_weeks_is_not_lost(corpus: Corpus) -> None:
    read = reader(corpus).read
    # "two weeks ago" whole, cut before its "##s", and cut behind it.
    assert words_of(read(segments([(0, 4)], [(0, 2)], [(2, 4)]))) == [
        ["two", "weeks", "ago"], ["two"], ["ago"],
    ]  # fmt: skip


def test_unknown_words_are_never_words(corpus: Corpus) -> None:
    (words,) = words_of(reader(corpus).read(segments([(0, corpus.num_tokens)])))
    assert "!" not in "".join(words)
    assert "[UNK]" not in words


@pytest.mark.parametrize("chinese", [False, True])
@given(data=st.data())
def test_words_of_any_segment_are_those_of_the_text(
    corpus: Corpus, chinese: bool, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, corpus.num_tokens - 1))
    bounds = corpus.sentence_starts[corpus.document_starts]
    last = int(bounds[np.searchsorted(bounds, start, side="right")])
    end = data.draw(st.integers(start + 1, last))
    rows = reader(corpus, chinese=chinese).read(segments([(start, end)]))
    assert rows.words is not None
    words = rows.words[1:-1]
    found = [
        (start + int(own[0]), start + int(own[-1]) + 1)
        for number in dict.fromkeys(words[words >= 0].tolist())
        for own in [np.flatnonzero(words == number)]
    ]
    expected = [
        word for word in whole_words(corpus, chinese=chinese) if start <= word[0] < word[1] <= end
    ]
    assert found == expected


def test_words_do_not_depend_on_the_rows_beside(corpus: Corpus) -> None:
    read = reader(corpus, chinese=True).read
    parts = [[(1, 5), (9, 12)], [(12, 13)], [(14, 20)], [(16, 24), (3, 4)]]
    together = words_of(read(segments(*parts)))
    assert together == [words_of(read(segments(part)))[0] for part in parts]


def test_passages_hold_whole_sentences_and_separators_between_documents(corpus: Corpus) -> None:
    anchors = np.arange(corpus.num_tokens)
    for room in (7, 13, 29):
        passages = draw_passages(corpus, anchors, room)
        rows = RowReader(corpus, TOKENIZER, np.zeros(99, bool)).read(passages)
        assert rows.words is None
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


def test_passages_cross_documents_and_windows_do_not(corpus: Corpus) -> None:
    anchors = np.arange(corpus.num_tokens)
    assert max(map(len, draw_passages(corpus, anchors, 30).of_rows())) > 1
    assert set(map(len, draw_windows(corpus, anchors, 30).segments().of_rows())) == {1}
    whole = draw_passages(corpus, anchors, corpus.num_tokens + corpus.num_documents - 1)
    assert set(map(len, whole.of_rows())) == {corpus.num_documents}

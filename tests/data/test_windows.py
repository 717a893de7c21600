"""Texts, words and questions in windows: all of a text is shown, with the reference's ids."""

from itertools import islice

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from tiny_models import tiny_tokenizer

from bertsmith.data.encoded_texts import iter_pairs, max_text_length
from bertsmith.data.question_windows import encode_questions, label_windows, locate_tokens
from bertsmith.data.squad import Question, QuestionReader
from bertsmith.data.tagged_files import TaggedReader
from bertsmith.data.windowing import Windowing
from bertsmith.data.windows import encode_windowed, make_windows, window_spans
from bertsmith.data.word_rows import cut_words, deciding_windows
from bertsmith.errors import CheckpointError, ConfigError, InputError
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.wordpiece import WordPieceTokenizer

TOKENIZER = tiny_tokenizer()


def test_a_stride_that_leaves_no_room_is_refused():
    with refuses(ConfigError, "stride", "found 5", "5 tokens", "0 to 4"):
        window_spans(10, 5, 5)
    with refuses(ConfigError, "--stride", "found 20", "37 tokens", "0 to 18"):
        Windowing(stride=20).overlap(37)
    assert Windowing().overlap(37) == Windowing.of_settings({"stride": None}).overlap(37) == 9


def words(count, seed=0):
    vocab = ["good", "bad", "film", "story", "very", "dull", "and", "a"]
    return " ".join(np.random.default_rng(seed).choice(vocab, count))


@pytest.mark.parametrize("max_length, stride", [(17, 0), (19, 5)])
def test_all_windows_but_the_last_are_those_of_transformers(tmp_path, max_length, stride):
    from transformers import AutoTokenizer

    TOKENIZER.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path, model_type="bert")
    text, pair = words(53), words(4, 1)
    settings = {"max_length": max_length, "stride": stride, "return_overflowing_tokens": True}
    expected = theirs(text, truncation=True, **settings)["input_ids"]
    ids = TOKENIZER.encode_ids
    found = make_windows(TOKENIZER, [ids(text)], max_length, stride)
    assert [row.ids.tolist() for row in found.rows][:-1] == expected[:-1]
    assert len(found.rows) == len(expected)
    encoded = theirs(pair, text, truncation="only_second", **settings)
    found = make_windows(TOKENIZER, [ids(pair), ids(text)], max_length, stride)
    assert [row.ids.tolist() for row in found.rows][:-1] == encoded["input_ids"][:-1]
    assert [row.type_ids.tolist() for row in found.rows][:-1] == encoded["token_type_ids"][:-1]


@settings(max_examples=50)
@given(st.integers(0, 60), st.integers(0, 60), st.integers(5, 37), st.sampled_from([None, 0, 1]))
def test_a_window_says_which_tokens_it_shows(first, second, max_length, windowed):
    parts = [list(range(100, 100 + first)), list(range(200, 200 + second))]
    windows = make_windows(TOKENIZER, parts, max_length, 4, windowed=windowed)
    longer = int(second > first) if windowed is None else windowed
    seen = set()
    for row in windows.rows:
        assert len(row.ids) <= max_length
        assert row.ids[0] == TOKENIZER.cls_id and row.ids[-1] == TOKENIZER.sep_id
        shown = row.ids[row.first : row.first + row.end - row.start].tolist()
        assert shown == parts[longer][row.start : row.end]
        assert set(row.type_ids[row.ids >= 200]) <= {1}
        assert set(row.type_ids[(row.ids >= 100) & (row.ids < 200)]) <= {0}
        seen |= set(row.ids[row.ids >= 100].tolist())
    assert windows.num_cut == first + second - len(seen)
    if windowed is None and first + second <= max_length - 3:
        assert len(windows.rows) == 1
        assert windows.num_cut == 0


@pytest.mark.parametrize(("num_context", "num_cut"), [(0, 5), (1, 5), (10, 14), (17, 21), (30, 21)])
def test_a_long_question_takes_what_its_context_leaves_free(num_context, num_cut):
    parts = [[*range(100, 138)], [*range(200, 200 + num_context)]]
    windows = make_windows(TOKENIZER, parts, 37, 4, windowed=1)  # 34 tokens, and three of BERT's
    assert windows.num_cut == num_cut
    assert all(len(row.ids) == 37 for row in windows.rows[1:])
    assert {token for row in windows.rows for token in row.ids.tolist()} >= {*parts[1]}


def test_too_many_rows_are_thinned_evenly_and_counted():
    texts = [("good", None), (words(500), None), ("bad", None)]
    encoded = encode_windowed(TOKENIZER, texts, 37, Windowing())
    assert encoded.limit_tokens(10_000) is encoded
    few = encoded.limit_tokens(120)
    assert few.num_windows == [1, 3, 1]
    assert few.num_cut == [0, encoded.lengths[1] - 3 * 37, 0]
    all_rows = [encoded.rows.ids[row].tolist() for row in encoded.rows_of(1)]
    kept = [all_rows.index(few.rows.ids[row].tolist()) for row in few.rows_of(1)]
    assert kept == [len(all_rows) * i // 3 for i in range(3)]
    assert few.rows.ids[few.rows_of(2)[0]].tolist() == encoded.rows.ids[-1].tolist()


def test_texts_and_pairs_in_one_list():
    assert list(iter_pairs(["a", ("b", "c")])) == [("a", None), ("b", "c")]
    with refuses(InputError, "texts[1]", "float nan", "a string"):
        list(iter_pairs(["a", float("nan")]))


def test_a_tokenizer_whose_own_limit_leaves_no_room():
    tokenizer = WordPieceTokenizer(TOKENIZER.vocab, model_max_length=3)
    with refuses(CheckpointError, "tokenizer_config.json: ", "model_max_length is 3", "4 tokens"):
        max_text_length(tokenizer, 512, None)
    assert max_text_length(tokenizer, 512, 128) == 128
    assert [max_text_length(TOKENIZER, room, None) for room in (512, 19)] == [37, 19]


def test_words_of_real_sentences_have_the_reference_ids(data_dir):
    folder = data_dir / "vocabs" / "bert-base-cased"
    ours = load_tokenizer(folder)
    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    reader = TaggedReader(data_dir / "conll2003" / "eng.testb")
    sentences = [sentence.words for sentence in islice(reader, 101)]
    encodings = theirs.encode_batch(sentences, is_pretokenized=True, add_special_tokens=False)
    for (ids, first_pieces), encoding in zip(cut_words(ours, sentences), encodings, strict=True):
        assert ids.tolist() == encoding.ids
        changes = np.diff(np.array(encoding.word_ids), prepend=-1)
        assert first_pieces.tolist() == np.flatnonzero(changes).tolist()


def test_the_window_with_most_context_decides():
    windows = [(0, 11), (6, 17), (12, 23)]
    decides = deciding_windows(np.arange(23), windows)
    assert decides.tolist() == [0] * 9 + [1] * 6 + [2] * 8
    for place, window in enumerate(decides):
        contexts = [min(place - start, end - 1 - place) for start, end in windows]
        assert contexts[window] == max(contexts) >= 0


@pytest.mark.parametrize("context", [
    "a good👩‍🚀film, the bad❤️story", "film الفيلم story جيد",
    "a Fi\u0301lm\u200b wa\u0300s\u200d lovely\r\n\tfilm ﬁne 好film",
    "\u202ba film\u202c\u0000 \ufffd was",
])  # fmt: skip
def test_offsets_slice_the_context_as_it_is_written(context):
    question = Question("q", "the film .", context, ())
    encoded = encode_questions(TOKENIZER, [question], 11, Windowing(stride=3))
    ids, offsets = locate_tokens(TOKENIZER, context)
    for row, window in enumerate(encoded.alignment):
        places = window.context_offsets[window.first_in_context :][: window.size].tolist()
        for i, (start, stop) in enumerate(places):
            assert 0 <= start < stop <= len(context)
            token = encoded.rows.ids[row][window.first_in_row + i]
            assert token == ids[window.first_in_context + i]
            assert (start, stop) == tuple(offsets[window.first_in_context + i])
            alone = TOKENIZER.encode_ids(context[start:stop].strip())
            assert token in (*alone, TOKENIZER.token_to_id("##s"))


@pytest.mark.parametrize("data, vocabulary", [
    ("squad/dev-v1.1.json", "bert-base-uncased"), ("cmrc2018/dev.json.xz", "bert-base-chinese"),
])  # fmt: skip
def test_marked_tokens_of_published_sets_give_the_answer_again(data_dir, data, vocabulary):
    tokenizer = load_tokenizer(data_dir / "vocabs" / vocabulary)
    questions = [q for q in QuestionReader(data_dir / data) if q.row % 61 == 0]
    encoded = encode_questions(tokenizer, questions, 384, Windowing(stride=128))
    labels = label_windows(questions, encoded)
    assert labels.num_unreachable == 0
    equal = []
    for row in np.flatnonzero(labels.start_positions):
        asked, window = questions[encoded.example_of_row()[row]], encoded.alignment[row]
        first = labels.start_positions[row] - window.first_in_row
        last = labels.end_positions[row] - window.first_in_row
        places = window.context_offsets[window.first_in_context :]
        found = asked.context[places[first, 0] : places[last, 1]]
        answer = next(one for one in asked.answers if one.start is not None)
        assert answer.text in found  # part of a word gives the whole word
        equal.append(found == answer.text)
    assert np.mean(equal) > 0.99

"""Every kind of tokenizer in every way a task reads text: pairs, questions, words."""

import pytest
import transformers
from refusals import refuses
from tiny_tokenizers import TEXT, TINY

from bertsmith.data.encoded_texts import encode_texts, max_text_length
from bertsmith.data.question_windows import encode_questions, label_windows
from bertsmith.data.squad import GoldAnswer, Question
from bertsmith.data.windowing import Windowing
from bertsmith.data.word_rows import encode_words
from bertsmith.errors import ConfigError

kinds = pytest.mark.parametrize("kind", TINY)


@kinds
def test_pairs_are_cut_to_a_length_as_encode_does(kind):
    tokenizer = TINY[kind]()
    pair = ("the river runs down to the sea", "it is wide, and who runs?")
    fewest = tokenizer.num_special_tokens(2) + 1
    for length in range(fewest + 1, 30, 3):
        encoded = encode_texts(tokenizer, [pair], length)
        expected = tokenizer.encode(*pair, max_length=length)
        assert encoded.ids[0].tolist() == expected.ids
        assert encoded.type_ids[0].tolist() == expected.type_ids
        assert encoded.num_cut == (expected.num_truncated,)
    assert max_text_length(tokenizer, 64, fewest) == fewest
    with refuses(ConfigError, f"max_length: found {fewest - 1}", f"{fewest} to 64"):
        max_text_length(tokenizer, 64, fewest - 1)


@kinds
def test_long_texts_keep_their_last_tokens_if_they_are_cut_on_the_left(kind):
    tokenizer = TINY[kind]()
    ids = tokenizer.encode_ids(TEXT)
    fewest = tokenizer.num_special_tokens(1)
    for length in range(fewest + 1, 30, 3):
        for side, kept in (("left", ids[fewest - length :]), ("right", ids[: length - fewest])):
            encoded = encode_texts(tokenizer, [(TEXT, None)], length, side)
            assert encoded.ids[0].tolist() == tokenizer.build_row([kept]).ids.tolist()
            assert encoded.num_cut == (len(ids) - len(kept),)
    short = [("the river", "the sea")]
    whole, same = (encode_texts(tokenizer, short, 64, side) for side in ("left", "right"))
    assert whole.ids[0].tolist() == same.ids[0].tolist()


def test_pairs_are_cut_on_the_left_as_by_transformers(tmp_path):
    tokenizer = TINY["wordpiece"]()
    tokenizer.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, truncation_side="left")
    pairs = [("the river runs down to the sea", "it is wide, and who runs?"),
             ("who runs", TEXT), (TEXT, "the sea")]  # fmt: skip
    for pair in pairs:
        for length in range(6, 30):
            encoded = encode_texts(tokenizer, [pair], length, "left")
            expected = theirs(*pair, truncation=True, max_length=length)
            assert encoded.ids[0].tolist() == expected["input_ids"]
            assert encoded.type_ids[0].tolist() == expected["token_type_ids"]


@kinds
def test_an_answer_is_found_in_the_windows_of_its_passage(kind):
    context = TEXT + "Their tower stands in Zürich. " + TEXT
    answer = GoldAnswer("tower stands", context.index("tower stands"))
    question = Question("q", "What stands?", context, answers=(answer,))
    encoded = encode_questions(TINY[kind](), [question], 47, Windowing())
    labels = label_windows([question], encoded)
    assert labels.num_unreachable == 0
    ends = enumerate(zip(labels.start_positions, labels.end_positions, strict=True))
    found = [(encoded.alignment[row], first, last) for row, (first, last) in ends if first]
    assert found
    for window, first, last in found:
        begin = window.first_in_context - window.first_in_row
        places = window.context_offsets[[begin + first, begin + last]]
        assert context[places[0, 0] : places[1, 1]].strip() == "tower stands"


@kinds
def test_each_word_has_a_first_piece_that_begins_it(kind):
    tokenizer = TINY[kind]()
    sentence = ["The", "river", "doesn't", "\u200b", "run", ",", "漢字", "."] * 9
    encoded = encode_words(tokenizer, [sentence], 23, Windowing())
    decided = []
    for row, (words, tokens) in enumerate(encoded.alignment):
        decided += words.tolist()
        for word, token in zip(words.tolist(), tokens.tolist(), strict=True):
            ids, _ = tokenizer.encode_word_ids([sentence[word]])
            expected = ids[0] if len(ids) else tokenizer.unk_id
            assert encoded.rows.ids[row][token] == expected
    assert decided == list(range(len(sentence)))

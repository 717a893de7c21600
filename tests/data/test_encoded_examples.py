"""Examples that were encoded apart and joined are those that are encoded together."""

from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from tiny_tokenizers import TEXT, TINY

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import EncodedTexts, encode_texts
from bertsmith.data.multiple_choice import ChoiceExample
from bertsmith.data.question_windows import encode_questions
from bertsmith.data.squad import Question
from bertsmith.data.windowing import Windowing
from bertsmith.data.windows import encode_windowed
from bertsmith.data.word_rows import encode_words
from bertsmith.tasks.multiple_choice import Choose

TEXTS = [TEXT, "the river", TEXT[:90], "it is wide", TEXT * 2, "who"]


def encode_pairs(tokenizer, texts):
    pairs = [(text, "the sea" if len(text) % 2 else None) for text in texts]
    return EncodedExamples.of_texts(encode_texts(tokenizer, pairs, 20))


def encode_windows(tokenizer, texts):
    return encode_windowed(tokenizer, [(text, None) for text in texts], 20, Windowing())


def encode_answers(tokenizer, texts):
    questions = [Question("q", "who runs?", text) for text in texts]
    return encode_questions(tokenizer, questions, 30, Windowing())


def encode_sentences(tokenizer, texts):
    return encode_words(tokenizer, [text.split() for text in texts], 20, Windowing())


def encode_prompts(tokenizer, texts):
    examples = [
        ChoiceExample(text, ("the sea", "it", "who runs")[: 2 + len(text) % 2]) for text in texts
    ]
    return Choose().encode(tokenizer, examples, 30, labelled=False)


WAYS = [encode_pairs, encode_windows, encode_answers, encode_sentences, encode_prompts]


def listed(value):
    """A value as nested lists, whatever arrays are in it."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if is_dataclass(value):
        return {field.name: listed(getattr(value, field.name)) for field in fields(value)}
    return [listed(one) for one in value] if isinstance(value, list | tuple) else value


def described(encoded):
    return {
        "ids": [row.tolist() for row in encoded.rows.ids],
        "type_ids": [row.tolist() for row in encoded.rows.type_ids],
        "num_cut": encoded.rows.num_cut,
        "starts": encoded.starts.tolist(),
        "alignment": listed(list(encoded.alignment)),
        "num_parts": listed(encoded.num_parts),
        "lengths": encoded.lengths,
        "windows": encoded.num_windows,
    }


@pytest.mark.parametrize("encode", WAYS)
@pytest.mark.parametrize("kind", TINY)
def test_examples_that_are_joined_are_the_whole(kind, encode):
    tokenizer = TINY[kind]()
    whole = encode(tokenizer, TEXTS)
    joined = EncodedExamples.concat([encode(tokenizer, [text]) for text in TEXTS])
    assert described(joined) == described(whole)
    assert len(whole.rows) > len(TEXTS) or encode is encode_pairs  # there are windows
    assert EncodedExamples.concat([whole]) is whole


@pytest.mark.parametrize("encode", WAYS)
def test_examples_of_several_groups_are_chosen_and_joined(encode):
    whole = encode(TINY["wordpiece"](), TEXTS)
    for order in ([0, 1, 2, 3, 4, 5], [5, 3, 1, 0, 2, 4], [4, 4, 0, 5, 2, 1]):
        groups = [whole.select(order[:2]), whole.select(order[2:5]), whole.select(order[5:])]
        joined = EncodedExamples.concat(groups)
        assert described(joined) == described(whole.select(order))


def test_rows_of_texts_are_joined_in_order():
    tokenizer = TINY["wordpiece"]()
    parts = [encode_texts(tokenizer, [(text, None)], 12) for text in TEXTS]
    joined = EncodedTexts.concat(parts)
    whole = encode_texts(tokenizer, [(text, None) for text in TEXTS], 12)
    assert joined.lengths == whole.lengths
    assert joined.num_cut == whole.num_cut
    assert joined.ids.flat.dtype == np.int32 and joined.ids.starts.dtype == np.int64
    np.testing.assert_array_equal(joined.ids.flat, whole.ids.flat)
    np.testing.assert_array_equal(joined.ids.starts, whole.ids.starts)

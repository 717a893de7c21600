"""Rows of tokens from questions and passages, and where answers stand in them."""

import numpy as np
import pytest
from tiny_models import tiny_tokenizer

from bertsmith.data.question_windows import encode_questions, label_windows, locate_tokens
from bertsmith.data.squad import Question, QuestionReader
from bertsmith.data.windows import Windowing
from bertsmith.tokenization.auto import load_tokenizer


@pytest.mark.parametrize("context", [
    "a good👩‍🚀film, the bad❤️story", "film الفيلم story جيد",
    "a Fi\u0301lm\u200b wa\u0300s\u200d lovely\r\n\tfilm ﬁne 好film",
    "\u202ba film\u202c\u0000 \ufffd was",
])  # fmt: skip
def test_offsets_slice_the_context_as_it_is_written(context):
    question = Question("q", "the film .", context, ())
    encoded = encode_questions(tiny_tokenizer(), [question], 11, Windowing(stride=3))
    ids, offsets = locate_tokens(tiny_tokenizer(), context)
    for row, window in enumerate(encoded.alignment):
        for i, (start, stop) in enumerate(window.offsets.tolist()):
            assert 0 <= start < stop <= len(context)
            token = encoded.rows.ids[row][window.first + i]
            assert token == ids[window.begin + i]
            assert (start, stop) == tuple(offsets[window.begin + i])
            assert token in tiny_tokenizer().encode_ids(context[start:stop].strip()) or token == (
                tiny_tokenizer().token_to_id("##s")
            )


@pytest.mark.parametrize("data, vocabulary, same", [
    ("squad/dev-v1.1.json", "bert-base-uncased", 0.99),
    ("cmrc2018/dev.json.xz", "bert-base-chinese", 0.99),
])  # fmt: skip
def test_marked_tokens_of_published_sets_give_the_answer_again(data_dir, data, vocabulary, same):
    tokenizer = load_tokenizer(data_dir / "vocabs" / vocabulary)
    questions = [q for q in QuestionReader(data_dir / data) if q.row % 61 == 0]
    encoded = encode_questions(tokenizer, questions, 384, Windowing(stride=128))
    labels = label_windows(questions, encoded)
    assert labels.num_unreachable == 0
    equal = []
    for row in np.flatnonzero(labels.start_positions):
        asked, window = questions[encoded.owners()[row]], encoded.alignment[row]
        first = labels.start_positions[row] - window.first
        last = labels.end_positions[row] - window.first
        found = asked.context[window.offsets[first, 0] : window.offsets[last, 1]]
        answer = next(one for one in asked.answers if one.start is not None)
        assert answer.text in found  # part of a word gives the whole word
        equal.append(found == answer.text)
    assert np.mean(equal) > same

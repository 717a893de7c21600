"""The question gives no library away, and no module is in two of its parts."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertsmith.data.examples import ExampleReader
from bertsmith.demo.corpus import ModuleText
from bertsmith.demo.question import (
    DEV_PERCENT,
    LABELS,
    NAMES,
    SHORT_NAMES,
    TEST_PERCENT,
    QuestionSize,
    ask,
    is_for_corpus,
    part_of,
    remove_names,
    write_examples,
)

SIZE = QuestionSize(train=5, dev=3, test=7)


def paragraph(*words: object) -> str:
    filler = ["of", "filler", "words", "that", "make", "it", "long", "enough", "to", "ask"]
    return " ".join(map(str, [*words, *filler] * 2))


@pytest.fixture(scope="module")
def documents():
    """Forty modules of each library, and of one that is not asked for."""
    return [
        ModuleText(library, f"{library}/module{number}.py",
                   tuple(paragraph("numpy", place, number, i) for i in range(1 + number % 6)))
        for place, library in enumerate([*LABELS, "jinja2"])
        for number in range(40)
    ]  # fmt: skip


SHORT = (rf"(?<![^\W\d_]){name}(?![^\W\d_])" for name in SHORT_NAMES)
NAME = re.compile("|".join([*NAMES, *SHORT]), re.IGNORECASE)
names = st.sampled_from([*NAMES, *SHORT_NAMES]).flatmap(
    lambda name: st.sampled_from([name, name.upper(), name.title()])
)
pieces = st.one_of(names, st.text("aXné漢_9", max_size=4), st.sampled_from(list(" .-_/,:(2\n")))


@settings(max_examples=20)
@given(st.lists(pieces, max_size=12).map("".join))
def test_no_name_survives(text):
    cleaned = remove_names(text)
    assert not NAME.search(cleaned)
    if not NAME.search(text):
        assert cleaned == text


def test_parts_share_no_module_and_have_about_their_share(documents):
    question = ask(documents, SIZE)
    parts = [part_of(document) for document in documents]
    part_by_text = {
        remove_names(text): part
        for document, part in zip(documents, parts, strict=True)
        for text in document.paragraphs
    }
    train = [example for draw in question.draws for example in draw]
    for part, examples in (("train", train), ("dev", question.dev), ("test", question.test)):
        assert {part_by_text[example.text] for example in examples} == {part}
    for part, percent in (("test", TEST_PERCENT), ("dev", DEV_PERCENT)):
        assert parts.count(part) / len(parts) == pytest.approx(percent / 100, abs=0.05)
    for document, part in zip(documents, parts, strict=True):
        assert is_for_corpus(document) == (document.library not in LABELS or part != "test")


def test_question_is_balanced_and_the_same_each_time(documents, tmp_path):
    question = ask(documents, SIZE)
    assert question == ask(documents, SIZE)
    assert question.label_counts() == dict.fromkeys(LABELS.values(), SIZE.test)
    assert [len(draw) for draw in question.draws] == [SIZE.train * len(LABELS)] * 3
    assert question.draws[0] != question.draws[1]
    write_examples(tmp_path / "test.csv", question.test)
    reader = ExampleReader(tmp_path / "test.csv")
    read = reader.read()
    assert [(e.text, e.label) for e in read] == [(e.text, e.label) for e in question.test]
    assert reader.num_skipped == 0

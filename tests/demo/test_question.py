"""The question gives no library away, and no module is both learned from and scored on."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertsmith.demo.corpus import ModuleText
from bertsmith.demo.question import (
    LABELS,
    NAMES,
    SHORT_NAMES,
    TEST_EVERY,
    build_question,
    draw_examples,
    remove_names,
    split_modules,
)


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


def test_no_module_is_both_learned_from_and_scored_on(documents):
    learned, scored = split_modules(documents)
    assert {document.library for document in scored} == set(LABELS)
    assert len(learned) + len(scored) == len(documents)
    assert len(scored) == len(LABELS) * 40 / TEST_EVERY
    train, test = build_question(learned, scored)
    assert list(train) == list(test) == sorted(LABELS.values())
    texts = [set().union(*part.values()) for part in (train, test)]
    assert not texts[0] & texts[1]
    for modules, part in ((learned, texts[0]), (scored, texts[1])):
        assert part <= {remove_names(text) for module in modules for text in module.paragraphs}


def test_draws_are_balanced_disjoint_and_the_same_each_time(documents):
    train, _ = build_question(*split_modules(documents))
    sets = draw_examples(train, (5, 3), seed=1)
    assert sets == draw_examples(train, (5, 3), seed=1) != draw_examples(train, (5, 3), seed=2)
    for examples, count in zip(sets, (5, 3), strict=True):
        labels = [example.label for example in examples]
        assert {label: labels.count(label) for label in train} == dict.fromkeys(train, count)
        assert all(example.text in train[example.label] for example in examples)
    assert not {each.text for each in sets[0]} & {each.text for each in sets[1]}

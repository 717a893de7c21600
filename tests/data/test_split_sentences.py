"""Sentence rules, as tables; and that nothing but white space is ever lost."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertsmith.data.sentences import split_sentences

# "|" marks where a sentence ends.
ENGLISH = [
    "It rained.| We left.| Nobody minded!| Why?| Because.",
    "Mr. Smith met Dr. Jones and Prof. Wu.| They talked.",
    "J. R. R. Tolkien and George W. Bush never met.| He was late.",
    "He moved to the U.S. Army base.",
    "She was paid by Acme Inc. Holdings in 1999.| In 2000 she left.",
    "It belongs to Acme Inc.| It always did.",
    "vs. Chelsea he scored",
    "v. X",
    "The edition of 1920 (trans. Smith) is lost.| It sold well.",
    "He moved to the U.S.| The base was new.",
    "See Fig. 3 and No. 5 on pp. 7 to 9.| Then go on.",
    "He said no.| Five people heard it.",
    'He said "Stop."| Then he left.',
    '"Why?" he asked.| "Because!" she said.',
    "It was late. (see below)",
    "Wait... what?| Nothing.",
    "Wait...| He was gone.",
    "Well…| I never said that.",
    "Well… maybe.",
    "Really?!| Yes.",
    "He uses node.js daily.| It works.",
    "1. Introduction",
    "12. Results and more.| They follow.",
    "Vitamin C.| It is good for you.",
    "Vitamin C. Deficiency is rare.",
    "iPhones are sold. iPads too.| But not here.",
    "It was shown.[12]| It was shown again.[3][4]| Good.",
    "Smith et al. Found it in approx. 3 days.",
    "What a film.<br /><br />|I liked it.",
    "He came at 5 p.m.| The door was shut.",
    "He came at 5 p.m. Monday.",
    "Il est parti. être ou ne pas être.",
    "Są np. łodzie, tzn. żaglówki.| Ćwiczą.",
    "Są m.in. ćwiczenia.| Žena přišla, tj. česká.",
    "Він, т.зв. їжак.| Їжак.",
    "Π.χ. όταν.| Όταν.",
]
CHINESE = [
    "今天天气很好。|我们去公园吧！|你去吗？|好；|走。",
    "他说：“你好。”|然后走了。",
    "他说：“你好！”，然后走了。",
    "「真的嗎？」|他問。|『是的。』|她答。",
    "真的？！|当然。",
    "好!|他说。",
    "他说OK.| Then he left.| 他走了。",
    "（他来了。）|我走了。",
    "他想……|走了。",
    "圆周率是3.14，不是3.15。|对。",
    "我用Python.| 然后写C.",
    "第一行|\n第二行",
]


@pytest.mark.parametrize("marked", ENGLISH + CHINESE)
def test_sentences_end_where_a_reader_says(marked):
    expected = [sentence.strip() for sentence in marked.split("|")]
    assert split_sentences(marked.replace("|", "")) == expected


@pytest.mark.parametrize("end", ["\n", "\r\n", "\u2028"])
def test_a_line_end_always_ends_a_sentence(end):
    found = split_sentences(f"the St.{end}of things and{end}so on")
    assert found == ["the St.", "of things and", "so on"]


SPECIAL = [". ", "... ", "。", "！”", "Mr. ", "U.S. ", "\n", "? ", "<br />", "1. ", "…", " "]
PIECES = st.sampled_from(SPECIAL) | st.text(max_size=5)


@settings(max_examples=60)
@given(st.lists(PIECES, max_size=30).map("".join))
def test_only_white_space_is_lost(text):
    sentences = split_sentences(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() != "" for sentence in sentences)
    assert all("\n" not in sentence and "\r" not in sentence for sentence in sentences)


@pytest.mark.parametrize("unit", [".", "。”", ".)", "<br", "[1]", "Mr. "])
def test_time_is_linear(unit):
    text = unit * (60_000 // len(unit)) + "，"
    started_at = time.process_time()
    assert "".join(split_sentences(text)).replace(" ", "") == text.replace(" ", "")
    assert time.process_time() - started_at < 4  # quadratic time would be minutes

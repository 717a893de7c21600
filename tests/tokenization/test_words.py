"""Words of running text: the cuts of the corpora, and places that slice the text exactly."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.tokenization.normalize import clean
from bertsmith.tokenization.words import find_words, join_words


def words(text, rule="words"):
    return [text[start:end] for start, end in find_words(text, rule)]


@pytest.mark.parametrize(
    "text, expected",
    [
        ('He said: "no".', 'He said : " no " .'),
        ("The U.S. paid 1,000.5 (net)...", "The U.S. paid 1,000.5 ( net ) ..."),
        ("John's e-mail (a@b.org) isn't here", "John 's e-mail ( a@b.org ) is n't here"),
        (
            "Can't they’re don’t rock'n'roll O'Neil's",
            "Ca n't they ’re do n’t rock'n'roll O'Neil 's",
        ),
        ("see http://x.com/a-b?", "see http://x.com/a-b ?"),
        ("AL-AIN -- AT&T", "AL-AIN -- AT&T"),
        ("中共中央GDP增长3.5%，", "中 共 中 央 GDP 增 长 3.5 % ，"),
        ("great😀👍🏽 ok", "great 😀👍🏽 ok"),
        ("שלום, עולם!", "שלום , עולם !"),
        ("न्यूयॉर्क में", "न्यूयॉर्क में"),
        ("n't 's", "n't 's"),
        ("   ", ""),
        ("", ""),
    ],
)
def test_text_is_cut_as_corpora_are(text, expected):
    assert words(text) == expected.split()


def test_other_rules():
    assert words("isn't it,\u3000so\n", "spaces") == ["isn't", "it,", "so"]
    assert words("中国 GDP👍🏽", "characters") == ["中", "国", "G", "D", "P", "👍🏽"]
    assert join_words(["中", "国", "，", "GDP", "up", "增"])[0] == "中国，GDP up增"


@pytest.mark.parametrize("rule", ["words", "spaces", "characters"])
@given(text=st.text() | st.text(alphabet="ab'’nNtTs.,-/: @😀\u200d中。\u0301\t", max_size=30))
def test_nothing_but_white_space_is_left_out_and_no_word_holds_any(rule, text):
    places = find_words(text, rule)
    assert "".join(text[start:end] for start, end in places) == "".join(
        char for char in text if clean(char) != " "
    )
    assert all(start < end for start, end in places)
    assert all(end <= start for (_, end), (start, _) in pairwise(places))


@given(st.lists(st.text(alphabet="aé中。😀 \u200b", max_size=4), max_size=9))
def test_joined_words_stand_where_it_is_said(given_words):
    text, places = join_words(given_words)
    assert [text[start:end] for start, end in places] == given_words

"""Text rules: the library's on every code point; words stand where they are said to stand."""

import itertools
import runpy
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from bertsmith.tokenization import unicode_tables
from bertsmith.tokenization.normalize import Normalizer, clean_character
from bertsmith.tokenization.words import find_words, join_words

SURROGATES = range(0xD800, 0xE000)
SETTINGS = list(itertools.product((False, True), (False, True)))
BLOCK = 128
# Planes 0 to 3 hold the characters, plane 14 some controls; the rest is empty or private.
ASSIGNED, SPECIAL_PURPOSE = range(0x32400), range(0xE0000, 0xE0200)


def disagreements(codes, lowercase, strip_accents):
    """Blocks of characters, each between two letters, that normalize or split differently."""
    ours = Normalizer(lowercase, strip_accents)
    theirs = BertNormalizer(True, True, strip_accents, lowercase)
    are_kept = not (lowercase or strip_accents)  # all characters that words can have
    wrong = []
    for start in range(codes.start, codes.stop, BLOCK):
        block = (chr(c) for c in range(start, start + BLOCK) if c not in SURROGATES)
        text = "x".join(block) + "x"
        normalized = theirs.normalize_str(text)
        library_words = [word for word, _ in BertPreTokenizer().pre_tokenize_str(normalized)]
        is_same = ours.normalize(text) == normalized
        if not is_same or (are_kept and ours.words(text) != library_words):
            wrong.append(f"{start:x}")
    return wrong


@pytest.mark.parametrize("codes", [ASSIGNED, SPECIAL_PURPOSE])
@pytest.mark.parametrize(("lowercase", "strip_accents"), SETTINGS)
def test_every_code_point_is_as_in_the_library(codes, lowercase, strip_accents):
    assert disagreements(codes, lowercase, strip_accents) == []


def test_lone_surrogates_are_removed_and_new_letters_lowered():
    assert Normalizer().normalize("a\ud800b\udfff c") == "ab c"
    assert Normalizer(strip_accents=True).align("\udc00\u302e\ud800a") == ("\u302ea", [1, 3])
    # U+1C89 came with Unicode 16 and U+16EA0 with 17; Python 3.11 knows Unicode 14.
    assert Normalizer().normalize("\u1c89 \U00016ea0") == "\u1c8a \U00016ebb"


@pytest.mark.slow
def test_tables_are_what_the_generator_writes():
    script = Path(__file__).parents[2] / "tools" / "generate_unicode_tables.py"
    for name, _, table in runpy.run_path(str(script))["tables"]():
        assert getattr(unicode_tables, name).split() == table.split(), name


def words(text, rule="words"):
    return [text[start:end] for start, end in find_words(text, rule)]


@pytest.mark.parametrize(
    "text, expected",
    [
        ('He said: "no".', 'He said : " no " .'),
        ("The U.S. paid 1,000.5 (net)...", "The U.S. paid 1,000.5 ( net ) ..."),
        ("John's e-mail (a@b.org) isn’t here", "John 's e-mail ( a@b.org ) is n’t here"),
        ("see http://x.com/a-b?", "see http://x.com/a-b ?"),
        ("中共中央GDP增长3.5%，", "中 共 中 央 GDP 增 长 3.5 % ，"),
        ("great😀👍🏽 ok", "great 😀👍🏽 ok"),
        ("न्यूयॉर्क में", "न्यूयॉर्क में"),
        ("   ", ""),
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
        char for char in text if clean_character(char) != " "
    )
    assert all(start < end for start, end in places)
    assert all(end <= start for (_, end), (start, _) in pairwise(places))


@given(st.lists(st.text(alphabet="aé中。😀 \u200b", max_size=4), max_size=9))
def test_joined_words_stand_where_it_is_said(given_words):
    text, places = join_words(given_words)
    assert [text[start:end] for start, end in places] == given_words

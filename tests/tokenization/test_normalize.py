"""The text rules equal the `tokenizers` library's on every code point and in every order."""

import itertools
import runpy
from pathlib import Path

import pytest
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from bertsmith.tokenization import unicode_tables
from bertsmith.tokenization.normalize import Normalizer

SURROGATES = range(0xD800, 0xE000)
SETTINGS = list(itertools.product((False, True), (False, True)))
BLOCK = 128
SLOW = pytest.mark.slow
# Planes 0 to 3 hold the characters, plane 14 some controls; the rest is empty or private.
ASSIGNED, SPECIAL_PURPOSE = range(0x32400), range(0xE0000, 0xE0200)
OTHERS = range(0x32400, 0x110000)


def library_words(normalized):
    return [word for word, _ in BertPreTokenizer().pre_tokenize_str(normalized)]


def disagreements(codes, lowercase, strip_accents, tokenize_chinese_chars):
    """Blocks of characters, each between two letters, that normalize or split differently."""
    ours = Normalizer(lowercase, strip_accents, tokenize_chinese_chars)
    theirs = BertNormalizer(True, tokenize_chinese_chars, strip_accents, lowercase)
    wrong = []
    for start in range(codes.start, codes.stop, BLOCK):
        block = (chr(c) for c in range(start, start + BLOCK) if c not in SURROGATES)
        text = "x".join(block) + "x"
        normalized = theirs.normalize_str(text)
        if ours.normalize(text) != normalized or ours.words(text) != library_words(normalized):
            wrong.append(f"{start:x}")
    return wrong


@pytest.mark.parametrize("codes", [ASSIGNED, SPECIAL_PURPOSE, pytest.param(OTHERS, marks=SLOW)])
@pytest.mark.parametrize(("lowercase", "strip_accents"), SETTINGS)
def test_every_code_point_is_as_in_the_library(codes, lowercase, strip_accents):
    assert disagreements(codes, lowercase, strip_accents, tokenize_chinese_chars=True) == []


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

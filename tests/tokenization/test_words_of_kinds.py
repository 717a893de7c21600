"""Every kind of tokenizer cuts a text as it cuts the words that it says the text has."""

import random

import pytest
from tiny_tokenizers import TINY, tiny_byte_bpe
from unicode_strings import unicode_string

from bertsmith.errors import InputError

OTHERS = [
    "",
    " ",
    "the river",
    " the  sea\n",
    "A café in Zürich doesn't",
    "漢字the",
    "▁the ▁ ▁",
    "\ud800x",
]


MAKE = {**TINY, "byte-bpe with a space": lambda: tiny_byte_bpe(add_prefix_space=True)}


@pytest.mark.parametrize("kind", MAKE)
def test_ids_of_the_words_are_those_of_the_text(kind):
    tokenizer = MAKE[kind]()
    rng = random.Random(5)
    for text in [*OTHERS, *(unicode_string(rng) for _ in range(2000))]:
        if not any(token.content.lower() in text.lower() for token in tokenizer.added_tokens):
            ids = [id_ for word in tokenizer.words(text) for id_ in tokenizer.word_ids(word)]
            assert ids == tokenizer.encode_ids(text), repr(text)


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("given", [None, float("nan"), b"the", ["the", "river"]])
def test_what_is_no_string_is_refused_by_its_type(kind, given):
    with pytest.raises(InputError, match=f"text: found {type(given).__name__}. Give a string"):
        MAKE[kind]().encode(given)
    if given is not None:
        with pytest.raises(InputError, match=f"pair: found {type(given).__name__}. Give a string"):
            MAKE[kind]().encode("the", given)

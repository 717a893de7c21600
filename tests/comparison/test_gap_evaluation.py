"""Sentences of a comparison become gaps, whatever the kind of the tokenizer."""

import pytest
from refusals import refuses
from tiny_tokenizers import TINY

from bertsmith.comparison.gap_evaluation import read_sentence
from bertsmith.errors import ConfigError


@pytest.mark.parametrize("kind", TINY)
def test_the_space_before_a_gap_belongs_to_the_missing_word(kind):
    tokenizer = TINY[kind]()
    gap = read_sentence(tokenizer, f"The river {tokenizer.mask_token} down.")
    assert list(gap.before) == tokenizer.encode_ids("The river")
    assert list(gap.after) == tokenizer.encode_ids(" down.")


def test_a_sentence_has_one_gap():
    tokenizer = TINY["wordpiece"]()
    for sentence in ("the river", "the [MASK] [MASK]"):
        with refuses(ConfigError, "sentences", repr(sentence), "[MASK]"):
            read_sentence(tokenizer, sentence)

"""Byte-level BPE equals the `tokenizers` library: ids, offsets, text, and what is learnt."""

import json
import random
from collections import Counter

import pytest
import tokenizers
from library_tokenizers import assert_same, assert_same_batch, library_of, texts_to_try
from tiny_tokenizers import TEXT, tiny_byte_bpe
from tokenizers import models, pre_tokenizers, trainers

from bertsmith.errors import ConfigError
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.byte_bpe import (
    BYTE_CHARACTERS,
    ByteBpeTokenizer,
    clean_words,
    split_pattern,
)
from bertsmith.vocabulary.byte_bpe import SPECIAL_TOKENS, learn_byte_bpe


@pytest.fixture(scope="module")
def gpt2(data_dir):
    tokenizer = load_tokenizer(data_dir / "vocabs" / "gpt2")
    assert isinstance(tokenizer, ByteBpeTokenizer)
    return tokenizer


def test_the_vocabulary_of_gpt2_agrees_on_random_strings_and_real_lines(gpt2, data_dir):
    library = library_of(gpt2)
    for text in texts_to_try(400):
        assert_same(gpt2, library, text)
    for corpus in ("enwiki", "zhwiki"):
        text = (data_dir / corpus / "small.txt").read_text(encoding="utf-8")[:100_000]
        assert_same_batch(gpt2, library, text.split("\n"))


@pytest.mark.parametrize("length", [0, 1, 7, 23, 24, 25, 400])
def test_long_runs_are_merged_as_in_the_library(length):
    ours = ByteBpeTokenizer(
        [*SPECIAL_TOKENS, *BYTE_CHARACTERS, "aa", "aaa", "ab", "aab", "ba"],
        [("a", "a"), ("aa", "a"), ("a", "b"), ("a", "ab"), ("b", "a")],
    )
    library = library_of(ours)
    rng = random.Random(length)
    for _ in range(20):
        assert_same(ours, library, "".join(rng.choices("aab", k=length)))


def test_words_are_cut_by_the_pattern_of_gpt2_whatever_the_characters():
    pattern = pre_tokenizers.ByteLevel(add_prefix_space=False)
    for text in texts_to_try(600):
        spans = [span for _, span in pattern.pre_tokenize_str(text)]
        assert split_pattern(text) == [text[start:end] for start, end in spans], ascii(text)


def test_what_is_learnt_is_what_the_library_learns():
    rng = random.Random(34)
    runs = ["".join(rng.choices("aab- ", k=rng.randrange(1, 30))) for _ in range(150)]
    for texts in ([TEXT], runs, [TEXT, *runs, "----" * 30, "漢字漢字" * 9]):
        counts = Counter(word for text in texts for word in clean_words(text))
        learned = learn_byte_bpe(counts, 420)
        library = tokenizers.Tokenizer(models.BPE())
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=420,
            min_frequency=2,
            special_tokens=list(SPECIAL_TOKENS),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        library.train_from_iterator(texts, trainer)
        model = json.loads(library.to_str())["model"]
        assert learned.tokens == sorted(model["vocab"], key=model["vocab"].__getitem__)
        assert learned.merges == [tuple(pair) for pair in model["merges"]]


def test_vocab_json_and_merges_txt_are_enough(tmp_path):
    saved = tiny_byte_bpe(add_prefix_space=True)
    saved.save(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    assert load_tokenizer(tmp_path).fingerprint == saved.fingerprint
    (tmp_path / "tokenizer_config.json").unlink()
    for path in (tmp_path, tmp_path / "merges.txt", tmp_path / "vocab.json"):
        assert load_tokenizer(path).fingerprint == tiny_byte_bpe().fingerprint


def test_a_vocabulary_without_room_for_the_bytes_is_refused():
    with pytest.raises(ConfigError, match="at least 261"):
        learn_byte_bpe({"a": 1}, 260)

"""Byte-level BPE equals the `tokenizers` library: ids, offsets, text, and what is learnt."""

import json
import random
import unicodedata
import warnings
from collections import Counter

import pytest
import tokenizers
import transformers
from library_tokenizers import assert_same, assert_same_batch, library_of, texts_to_try
from tiny_tokenizers import TEXT, tiny_byte_bpe
from tokenizers import models, pre_tokenizers, trainers

from bertsmith.tokenization.added_tokens import AddedToken
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.bpe_words import clean_words
from bertsmith.tokenization.byte_bpe import BYTE_CHARACTERS, ByteBpeTokenizer
from bertsmith.tokenization.surrogates import without_surrogates
from bertsmith.vocabulary.byte_bpe import BYTE_BPE_SPECIAL_TOKENS, learn_byte_bpe


@pytest.fixture(scope="module")
def gpt2(data_dir):
    tokenizer = load_tokenizer(data_dir / "vocabs" / "gpt2")
    assert isinstance(tokenizer, ByteBpeTokenizer)
    return tokenizer


def test_the_vocabulary_of_gpt2_agrees_on_random_strings_and_real_lines(gpt2, data_dir):
    library = library_of(gpt2)
    for text in texts_to_try(120):
        assert_same(gpt2, library, text)
    for corpus in ("enwiki", "zhwiki"):
        text = (data_dir / corpus / "small.txt").read_text(encoding="utf-8")[:30_000]
        assert_same_batch(gpt2, library, text.split("\n"))


@pytest.mark.parametrize("pair_type_id", [0, 1])
def test_a_tokenizer_of_modernbert_agrees_in_composed_text_and_pairs(pair_type_id, tmp_path):
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("cls", "sep", "pad", "mask")}
    added = (
        *(AddedToken(token, lstrip=token == "[MASK]") for token in names.values()),
        AddedToken("[UNK]"), AddedToken("  ", normalized=True, special=False),
        AddedToken("e\u0301e", normalized=True, special=False),
    )  # fmt: skip
    tiny = tiny_byte_bpe()
    tokenizer = ByteBpeTokenizer(
        tiny.vocab[: tiny.num_pieces], tiny.merges, composes=True, num_separators=1,
        pair_type_id=pair_type_id, trim_offsets=False, unk_token="[UNK]", **names,
        added_tokens=added,
    )  # fmt: skip
    library = library_of(tokenizer)
    composed = ["\u00e9", "xe\u0301y e\u0301\u0302z", "a\u0315\u0300\u05ae\u0300b", "\u0958\u212b",
                "a\u0307\u0323\u0301", "[MAS\u212a] [MASK] e\u0301e", "\u1100\u1161\u11a8",
                "a\u0344\u0316y", "\u1e69\u0327x", "\u1e9b\u0323 "]  # fmt: skip
    for text in [*composed, *texts_to_try(120)]:
        assert_same(tokenizer, library, text)
        assert_same(tokenizer, library, text, "the second\u0301 one")
        words = "".join(tokenizer.words(text))
        assert words == unicodedata.normalize("NFC", without_surrogates(text))
    assert_same_batch(tokenizer, library, composed)
    tokenizer.save(tmp_path)
    again = load_tokenizer(tmp_path)
    assert (again.fingerprint, again.settings()) == (tokenizer.fingerprint, tokenizer.settings())
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in composed:
        assert theirs(text, "it")["input_ids"] == tokenizer.encode(text, "it").ids


@pytest.mark.parametrize("length", [0, 1, 7, 23, 24, 25, 400])
def test_long_runs_are_merged_as_in_the_library(length):
    ours = ByteBpeTokenizer(
        [*BYTE_BPE_SPECIAL_TOKENS, *BYTE_CHARACTERS, "aa", "aaa", "ab", "aab", "ba"],
        [("a", "a"), ("aa", "a"), ("a", "b"), ("a", "ab"), ("b", "a")],
    )
    library = library_of(ours)
    rng = random.Random(length)
    for _ in range(20):
        assert_same(ours, library, "".join(rng.choices("aab", k=length)))


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
            special_tokens=list(BYTE_BPE_SPECIAL_TOKENS),
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
    for path in (tmp_path / "merges.txt", tmp_path / "vocab.json"):
        path.write_text(path.read_text(encoding="utf-8"), encoding="utf-8-sig")
        assert load_tokenizer(path).fingerprint == tiny_byte_bpe().fingerprint


def test_a_space_before_the_text_is_as_the_config_says(tmp_path):
    tiny_byte_bpe(add_prefix_space=False).save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "add_prefix_space": True}))
    (tmp_path / "SHA256SUMS").unlink()
    with pytest.warns(UserWarning, match="add_prefix_space is true, and false in tokenizer.json"):
        tokenizer = load_tokenizer(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.encode("The River").ids == theirs("The River")["input_ids"]


@pytest.mark.parametrize("named", ["RobertaTokenizer", "BartTokenizer", "PreTrainedTokenizerFast"])
@pytest.mark.parametrize("key", ["add_prefix_space", "trim_offsets"])
@pytest.mark.parametrize("is_given", [True, False])
def test_spaces_that_the_config_lacks_are_those_of_the_class(named, key, is_given, tmp_path):
    usual = key == "trim_offsets"
    tiny_byte_bpe(**{key: not usual}).save(tmp_path)
    (tmp_path / "SHA256SUMS").unlink()
    path = tmp_path / "tokenizer_config.json"
    config = {**json.loads(path.read_text()), "tokenizer_class": named, key: usual}
    if not is_given:
        del config[key]
    path.write_text(json.dumps(config))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tokenizer = load_tokenizer(tmp_path)
    assert len(caught) == (named != "PreTrainedTokenizerFast")
    assert all(f"{key} is" in str(each.message) for each in caught)
    found = tokenizer("The River", return_offsets_mapping=True)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    expected = theirs("The River", return_offsets_mapping=True)
    assert found.input_ids == expected["input_ids"]
    assert found.offset_mapping == expected["offset_mapping"]

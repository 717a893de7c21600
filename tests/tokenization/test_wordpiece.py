"""The tokenizer equals the `tokenizers` library: ids, types, tokens, offsets, and back to text."""

import itertools
import json
import random
import warnings

import pytest
import tokenizers
import transformers
from library_tokenizers import assert_same, assert_same_batch, assert_same_text, library_of
from refusals import refuses
from tokenizers import decoders
from unicode_strings import unicode_string

import bertsmith.tokenization.string_cache
from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.wordpiece import WordPiece, WordPieceTokenizer

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789ABé漢字가´\u0301\u302e"
VOCAB = [
    *SPECIAL_TOKENS,
    *LETTERS,
    *(f"##{letter}" for letter in LETTERS),
    *",.!?'()[]=-#",
    *("the", "##ing", "token", "##ize", "##zer", "do", "not", "n't"),
]
REAL_VOCABULARIES = (
    "bert-base-uncased",
    "bert-base-cased",
    "bert-base-chinese",
    "bert-base-multilingual-cased",
)


@pytest.mark.parametrize("count", [150, pytest.param(5_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", REAL_VOCABULARIES)
def test_real_vocabularies_agree_on_random_strings_and_real_lines(name, count, data_dir):
    folder = data_dir / "vocabs" / name
    ours, file = load_tokenizer(folder), folder / "tokenizer.json"
    library = tokenizers.Tokenizer.from_file(str(file)) if file.exists() else library_of(ours)
    rng = random.Random(count + REAL_VOCABULARIES.index(name))
    texts = [unicode_string(rng) for _ in range(count)]
    for number, (text, pair) in enumerate(itertools.pairwise(texts)):
        assert_same(ours, library, text)
        if number % 10 == 0:
            assert_same(ours, library, text, max_length=rng.randrange(2, 12))
            assert_same(ours, library, text, pair)
            assert_same(ours, library, text, pair, max_length=rng.randrange(3, 40))
            ids = rng.choices(range(ours.vocab_size), k=rng.randrange(12))
            assert_same_text(ours, library, ids)
    assert_same_batch(ours, library, texts)
    for corpus in ("enwiki", "zhwiki"):
        text = (data_dir / corpus / "valid.txt").read_text(encoding="utf-8")
        assert_same(ours, library, text[:10_000])
        assert_same_batch(ours, library, text[: 100 * count].split("\n"))


FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


def test_added_tokens_with_any_flags_are_found_as_in_the_library(tmp_path):
    """Of two that share a normalized form, the library finds one or the other by chance."""
    rng = random.Random(23)
    contents = ["foo bar", "Foo", "ab", "é", "<x>", " x", "x ", "漢字", "=", "İ", "a b", ",,", "A"]
    pieces = [
        *("foo bar", "Foo", "ab", "é", "e\u0301", "<x>", "x", "漢字", "=", "≠", "İ", "a", "b", ","),
        *(" ", "\t\u3000", "_", "\u0903", "\u200d", "²", "[MASK]", "\x85", "\u0301", "A"),
    ]
    for number in range(16):
        library = library_of(WordPieceTokenizer(VOCAB, lowercase=number % 2 == 0))
        chosen = rng.sample(contents, rng.randrange(1, 6))
        by_form = {content.casefold().replace("é", "e"): content for content in chosen}
        library.add_tokens([
            tokenizers.AddedToken(content, **{flag: rng.random() < 0.4 for flag in FLAGS})
            for content in by_form.values()
        ])  # fmt: skip
        library.decoder = decoders.WordPiece(cleanup=number % 3 == 0)
        library.save(str(tmp_path / "tokenizer.json"))
        ours = load_tokenizer(tmp_path)
        assert ours.vocab_size == library.get_vocab_size()
        for _ in range(20):
            assert_same(ours, library, "".join(rng.choices(pieces, k=rng.randrange(1, 9))))
            ids = rng.choices(range(ours.vocab_size), k=rng.randrange(12))
            assert_same_text(ours, library, ids)


def test_results_do_not_depend_on_what_is_remembered(monkeypatch):
    rng = random.Random(25)
    texts = [unicode_string(rng) + " the tokenizer" for _ in range(400)]
    expected = [WordPieceTokenizer(VOCAB).encode_ids(text) for text in texts]
    monkeypatch.setattr(bertsmith.tokenization.string_cache, "CACHE_SIZE", 7)
    tokenizer = WordPieceTokenizer(VOCAB)
    assert [tokenizer.encode_ids(text) for text in texts] == expected
    assert [tokenizer.encode(text).ids[1:-1] for text in texts] == expected
    assert len(tokenizer._unit_ids) <= 7


def test_vocab_txt_and_its_configuration_are_enough(tmp_path):
    saved = WordPieceTokenizer(
        VOCAB, lowercase=False, strip_accents=True, tokenize_chinese_chars=False
    )
    saved.save(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    assert load_tokenizer(tmp_path).fingerprint == saved.fingerprint
    (tmp_path / "tokenizer_config.json").unlink()
    for path in (tmp_path, tmp_path / "vocab.txt"):
        assert load_tokenizer(path).fingerprint == WordPieceTokenizer(VOCAB).fingerprint
    vocab = [*VOCAB, "\u2028", "x\u2028", "\u0085", "\x0c", "\x1e"]
    for end in ("\n", "\r\n"):
        content = "".join(f"{token}{end}" for token in vocab)
        for encoding in ("utf-8", "utf-8-sig"):
            (tmp_path / "vocab.txt").write_bytes(content.encode(encoding))
            assert load_tokenizer(tmp_path).vocab == vocab


def test_normalization_in_the_config_is_followed_as_by_transformers(tmp_path):
    WordPieceTokenizer(VOCAB).save(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))
    text = "The café 漢字 İ"
    for key, value, name in (
        ("do_lower_case", False, "lowercase"),
        ("strip_accents", False, "strip_accents"),
        ("tokenize_chinese_chars", False, "tokenize_chinese_chars"),
    ):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({**config, key: value}))
        (tmp_path / "SHA256SUMS").unlink(missing_ok=True)
        with pytest.warns(UserWarning, match=f"{key} is false, and (true|null) in tokenizer.json"):
            tokenizer = load_tokenizer(tmp_path)
        assert getattr(tokenizer, name) is value
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
        assert tokenizer.encode(text).ids == theirs(text)["input_ids"]
        plain = {**config, key: value, "tokenizer_class": "PreTrainedTokenizerFast"}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(plain))
        assert getattr(load_tokenizer(tmp_path), name) is not value


@pytest.mark.parametrize("named, model", [
    ({"tokenizer_class": "BertTokenizer"}, {}), ({"tokenizer_class": "BertTokenizerFast"}, {}),
    ({"tokenizer_class": "PreTrainedTokenizerFast"}, {"model_type": "bert"}), ({}, {}),
    ({}, {"model_type": "bert"}), ({}, {"model_type": "electra"}),
    ({}, {"model_type": "modernbert"}),
])  # fmt: skip
@pytest.mark.parametrize("accents", [None, True, False])
@pytest.mark.parametrize("is_given", [True, False])
def test_normalization_that_the_config_lacks_is_that_of_the_class(
    named, model, accents, is_given, tmp_path
):
    WordPieceTokenizer(VOCAB, lowercase=False, strip_accents=accents).save(tmp_path)
    (tmp_path / "SHA256SUMS").unlink()
    path = tmp_path / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    for key in ("tokenizer_class", "do_lower_case", "strip_accents", "tokenize_chinese_chars"):
        del config[key]
    given = {"do_lower_case": True, "strip_accents": None} if is_given else {}
    path.write_text(json.dumps({**config, **named, **given}))
    (tmp_path / "config.json").write_text(json.dumps(model))
    text = "The café quick QUICK 漢字"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tokenizer = load_tokenizer(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.encode(text).ids == theirs(text)["input_ids"]
    state = "is true" if is_given else "is not set, so true"
    told = [each for each in caught if f"do_lower_case {state}, and false" in str(each.message)]
    assert len(told) == tokenizer.lowercase


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("accents", [None, True, False])
def test_a_saved_tokenizer_is_read_without_a_warning(lowercase, accents, tmp_path):
    saved = WordPieceTokenizer(VOCAB, lowercase=lowercase, strip_accents=accents)
    saved.save(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_tokenizer(tmp_path).settings() == saved.settings()


@pytest.mark.parametrize("key, file, kept", [
    ("additional_special_tokens", "special_tokens_map.json", "vocab.txt"),
    ("additional_special_tokens", "tokenizer_config.json", "tokenizer.json"),
    ("extra_special_tokens", "tokenizer_config.json", "vocab.txt"),
])  # fmt: skip
def test_further_special_tokens_are_found_as_they_stand(tmp_path, key, file, kept):
    WordPieceTokenizer([*VOCAB, "[E1]"]).save(tmp_path)
    whole = {"__type": "AddedToken", "content": "[E1]", "lstrip": True, "rstrip": False}
    for name in {"vocab.txt", "tokenizer.json", "tokenizer_config.json", "SHA256SUMS"} - {kept}:
        (tmp_path / name).unlink()
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    for entry in ("[E1]", {**whole, "normalized": False, "single_word": False}):
        (tmp_path / file).write_text(json.dumps({key: [entry, "[E2]"]}))
        tokenizer, text = load_tokenizer(tmp_path), "the [E1]quick[E2] [e1]"
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
        assert tokenizer.encode(text).ids == theirs(text)["input_ids"]
        assert tokenizer.token_to_id("[E2]") == len(VOCAB) + 1


def test_unusable_vocabularies_are_refused(tmp_path):
    with refuses(CheckpointError, "absent: there is no such folder", "vocab.txt"):
        load_tokenizer(tmp_path / "absent")
    with refuses(CheckpointError, ": has neither", "vocab.txt"):
        load_tokenizer(tmp_path)
    vocabs = [], VOCAB[:4], [*VOCAB, "the"], [*VOCAB, "a\nb"]
    for vocab, part in zip(vocabs, ("", "[MASK]", "'the'", "id 115"), strict=True):
        with refuses(ConfigError, part):
            WordPieceTokenizer(vocab)


def test_fingerprint_covers_what_decides_ids_and_nothing_else():
    def fingerprint(vocab=VOCAB, **settings):
        return WordPieceTokenizer(vocab, **settings).fingerprint

    assert fingerprint(strip_accents=True) == fingerprint(model_max_length=9) == fingerprint()
    others = [
        fingerprint(VOCAB[:5] + VOCAB[6:] + VOCAB[5:6]),
        fingerprint(lowercase=False),
        fingerprint(strip_accents=False),
        fingerprint(tokenize_chinese_chars=False),
        fingerprint(added_tokens=[]),
    ]
    assert len({fingerprint(), *others}) == 6


def test_a_vocabulary_without_continuations_or_with_a_bare_prefix_ends():
    pieces = WordPiece(["?", "a", "ab"], unk_id=0, max_chars=100)
    assert [pieces.ids(word) for word in ("ab", "aba", "b")] == [(2,), (0,), (0,)]
    pieces = WordPiece(["?", "a", "##", ""], unk_id=0, max_chars=100)
    assert [pieces.ids(word) for word in ("a", "aa")] == [(1,), (0,)]

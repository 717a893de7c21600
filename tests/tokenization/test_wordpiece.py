"""The tokenizer equals the `tokenizers` library: ids, types, tokens, offsets, and back to text."""

import json
import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer
from unicode_strings import unicode_string

import bertsmith.tokenization.tokenizer
from bertsmith.errors import CheckpointError, ConfigError, InputError
from bertsmith.tokenization.added_tokens import AddedToken
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.tokenizer import Tokenizer, truncated_lengths
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


def library_pipeline(
    vocab: list[str],
    lowercase: bool = True,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool = True,
) -> tokenizers.Tokenizer:
    ids = {token: id_ for id_, token in enumerate(vocab)}
    pipeline = tokenizers.Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    pipeline.normalizer = normalizers.BertNormalizer(
        handle_chinese_chars=tokenize_chinese_chars,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )
    pipeline.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pipeline.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, ids[token]) for token in ("[CLS]", "[SEP]")],
    )
    pipeline.decoder = decoders.WordPiece()
    pipeline.add_special_tokens(SPECIAL_TOKENS)
    return pipeline


def real_pair(name: str, data_dir: Path) -> tuple[Tokenizer, tokenizers.Tokenizer]:
    folder = data_dir / "vocabs" / name
    ours = load_tokenizer(folder)
    if (folder / "tokenizer.json").exists():
        return ours, tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    lines = (folder / "vocab.txt").read_bytes().decode("utf-8").removesuffix("\n").split("\n")
    return ours, library_pipeline(lines, lowercase=False)


def assert_same(
    ours: Tokenizer,
    library: tokenizers.Tokenizer,
    texts: list[str] | list[tuple[str, str]],
    max_length: int | None = None,
) -> None:
    """Equal in every field, and `encode_ids` and `encode_batch_ids` equal to `encode`."""
    library.no_truncation()
    if max_length is not None:
        library.enable_truncation(max_length, strategy="longest_first")
    expected = library.encode_batch(texts)
    for text, theirs in zip(texts, expected, strict=True):
        arguments = (text,) if isinstance(text, str) else text
        found = ours.encode(*arguments, max_length=max_length)
        same = (
            found.ids == theirs.ids
            and found.offsets == theirs.offsets
            and found.tokens == theirs.tokens
            and found.type_ids == theirs.type_ids
            and found.special_tokens_mask == theirs.special_tokens_mask
            and found.sequence_ids == theirs.sequence_ids
        )
        assert same, (ascii(text), found, theirs.ids, theirs.offsets, theirs.tokens)
        if max_length is None:
            parts = [id_ for part in arguments for id_ in ours.encode_ids(part)]
            assert parts == [
                id_
                for id_, of_text in zip(theirs.ids, theirs.sequence_ids, strict=True)
                if of_text is not None
            ], ascii(text)
    singles = [text for text in texts if isinstance(text, str)]
    if singles and max_length is None:
        rows = [theirs.ids[1:-1] for theirs in expected]
        assert ids_by_text(ours, singles) == rows


def ids_by_text(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    """What `encode_batch_ids` gives, text by text."""
    ids, lengths = tokenizer.encode_batch_ids(texts)
    assert lengths.shape == (len(texts),)
    assert ids.shape == (lengths.sum(),)
    ends = lengths.cumsum()
    return [ids[end - n : end].tolist() for end, n in zip(ends, lengths, strict=True)]


def assert_same_on_random_strings(
    ours: Tokenizer, library: tokenizers.Tokenizer, seed: int, count: int
) -> None:
    """Singles, pairs and truncation over `count` random strings, and decoding of random ids."""
    rng = random.Random(seed)
    for start in range(0, count, 5000):
        texts = [unicode_string(rng) for _ in range(min(5000, count - start))]
        cut = len(texts) // 10
        assert_same(ours, library, texts)
        assert_same(ours, library, texts[:cut], max_length=rng.randrange(2, 12))
        pairs = list(zip(texts[:cut], texts[cut : 2 * cut], strict=True))
        assert_same(ours, library, pairs)
        assert_same(ours, library, pairs, max_length=rng.randrange(3, 40))
        assert_same_decoding(ours, library, rng, count=cut)


def assert_same_decoding(
    ours: Tokenizer, library: tokenizers.Tokenizer, rng: random.Random, count: int
) -> None:
    for _ in range(count):
        ids = rng.choices(range(ours.vocab_size), k=rng.randrange(12))
        for skip in (True, False):
            theirs = library.decode(ids, skip_special_tokens=skip)
            assert ours.decode(ids, skip_special_tokens=skip) == theirs, ids


SETTINGS = [
    {"lowercase": lowercase, "strip_accents": strip_accents, "tokenize_chinese_chars": chinese}
    for lowercase in (True, False)
    for strip_accents in (True, False, None)
    for chinese in (True, False)
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_random_strings_are_encoded_as_in_the_library(settings: dict[str, Any]) -> None:
    ours, library = WordPieceTokenizer(VOCAB, **settings), library_pipeline(VOCAB, **settings)
    assert_same_on_random_strings(ours, library, seed=21, count=800)


@pytest.mark.parametrize("name", REAL_VOCABULARIES)
def test_real_vocabularies_agree_on_random_strings_and_real_lines(
    name: str, data_dir: Path
) -> None:
    ours, library = real_pair(name, data_dir)
    assert_same_on_random_strings(ours, library, seed=22, count=1000)
    for corpus in ("enwiki", "zhwiki"):
        text = (data_dir / corpus / "valid.txt").read_text(encoding="utf-8")[:60_000]
        assert_same(ours, library, text.split("\n"))


@pytest.mark.slow
@pytest.mark.parametrize("corpus", ["enwiki", "zhwiki"])
@pytest.mark.parametrize("name", REAL_VOCABULARIES)
def test_real_vocabularies_agree_on_every_line(name: str, corpus: str, data_dir: Path) -> None:
    ours, library = real_pair(name, data_dir)
    text = (data_dir / corpus / "valid.txt").read_text(encoding="utf-8")
    assert_same(ours, library, text.split("\n"))
    assert_same(ours, library, [text])


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL_VOCABULARIES)
def test_real_vocabularies_agree_on_a_quarter_million_strings(name: str, data_dir: Path) -> None:
    ours, library = real_pair(name, data_dir)
    seed = 1000 + REAL_VOCABULARIES.index(name)
    assert_same_on_random_strings(ours, library, seed=seed, count=250_000)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "K\x00bu yi\x00as",
        " ",
        "\x0b\x85\x1f",
        "a" * 100,
        "a" * 101,
        "é" * 101,
        "a" * 100_000,
        "漢" * 5000,
        "a\u0301" * 300,
        "\u302e\u0301" * 300,
        "[MASK][MASK] x[SEP]y [CLS",
        "\u0130\u2260\u1fef\u037e",
        "a\x1cb\x0bc\x85d e\u2028f",
        "\u0344\u0316\u1d15e\u302e",
        "Don't! (you?) say: 'so'.",
    ],
)
def test_awkward_texts_are_encoded_as_in_the_library(text: str) -> None:
    for settings in SETTINGS:
        assert_same(
            WordPieceTokenizer(VOCAB, **settings), library_pipeline(VOCAB, **settings), [text]
        )


def added_token_sets(rng: random.Random) -> Iterator[list[tokenizers.AddedToken]]:
    """Sets of added tokens with random flags; no two share a normalized form.

    Of two that do, the library finds one or the other by chance.
    """
    contents = ["foo bar", "Foo", "ab", "é", "<x>", " x", "x ", "漢字", "=", "İ", "a b", ",,", "A"]
    while True:
        tokens, forms = [], set()
        for content in rng.sample(contents, rng.randrange(1, 6)):
            form = content.casefold().replace("é", "e")
            if form not in forms:
                forms.add(form)
                flags = {
                    flag: rng.random() < 0.4
                    for flag in ("single_word", "lstrip", "rstrip", "normalized", "special")
                }
                tokens.append(tokenizers.AddedToken(content, **flags))
        yield tokens


def test_added_tokens_with_any_flags_are_found_as_in_the_library(tmp_path: Path) -> None:
    rng = random.Random(23)
    pieces = [
        *("foo bar", "Foo", "ab", "é", "e\u0301", "<x>", "x", "漢字", "=", "≠", "İ", "a", "b", ","),
        *(" ", "\t\u3000", "_", "\u0903", "\u200d", "²", "[MASK]", "\x85", "\u0301", "A"),
    ]
    sets = added_token_sets(rng)
    for number in range(60):
        library = library_pipeline(VOCAB, lowercase=number % 2 == 0)
        library.add_tokens(next(sets))
        library.decoder = decoders.WordPiece(cleanup=number % 3 == 0)
        library.save(str(tmp_path / "tokenizer.json"))
        ours = load_tokenizer(tmp_path)
        texts = ["".join(rng.choices(pieces, k=rng.randrange(1, 9))) for _ in range(40)]
        assert ours.vocab_size == library.get_vocab_size()
        assert_same(ours, library, texts)
        assert_same_decoding(ours, library, rng, count=10)


@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=2),
    max_length=st.integers(3, 60),
)
def test_truncation_is_the_librarys_longest_first(lengths: list[int], max_length: int) -> None:
    texts = [" ".join("a" * length) for length in lengths]
    library = library_pipeline(VOCAB)
    library.enable_truncation(max_length, strategy="longest_first")
    found = WordPieceTokenizer(VOCAB).encode(*texts, max_length=max_length)
    assert found.ids == library.encode(*texts).ids
    assert found.num_truncated == sum(lengths) - (len(found.ids) - len(lengths) - 1)
    assert sum(truncated_lengths(lengths, max_length)) <= max_length


def test_max_length_without_room_for_special_tokens_is_refused() -> None:
    tokenizer = WordPieceTokenizer(VOCAB)
    assert tokenizer.encode("a b", max_length=2).tokens == ["[CLS]", "[SEP]"]
    with pytest.raises(ConfigError, match="max_length is 1"):
        tokenizer.encode("a b", max_length=1)
    with pytest.raises(ConfigError, match="take 3 tokens"):
        tokenizer.encode("a", "b", max_length=2)


@pytest.mark.parametrize("cleanup", [True, False])
def test_decoding_is_as_in_the_library(cleanup: bool) -> None:
    library = library_pipeline(VOCAB)
    library.decoder = decoders.WordPiece(cleanup=cleanup)
    ours = WordPieceTokenizer(VOCAB, decoder_cleanup=cleanup)
    assert_same_decoding(ours, library, random.Random(24), count=2000)
    for text in ("do not , do n't ! it ' s a ( b ) .", "##a [MASK] ##b", ""):
        ids = ours.encode(text).ids
        assert ours.decode(ids) == library.decode(ids)


@pytest.mark.parametrize("id_", [-1, len(VOCAB)])
def test_ids_out_of_range_are_refused(id_: int) -> None:
    tokenizer = WordPieceTokenizer(VOCAB)
    with pytest.raises(InputError, match=f"token id {id_} "):
        tokenizer.decode([5, id_])
    with pytest.raises(InputError, match="0 to"):
        tokenizer.id_to_token(id_)


def test_tokens_and_ids_name_each_other() -> None:
    tokenizer = WordPieceTokenizer(VOCAB)
    assert [tokenizer.token_to_id(token) for token in tokenizer.vocab] == list(range(len(VOCAB)))
    assert [tokenizer.id_to_token(id_) for id_ in range(len(VOCAB))] == VOCAB
    assert tokenizer.token_to_id("absent") is None
    named = tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id
    assert (*named, tokenizer.mask_id) == (0, 1, 2, 3, 4)
    assert tokenizer.special_ids == {0, 1, 2, 3, 4}


def test_a_vocabulary_without_continuations_or_with_a_bare_prefix_ends() -> None:
    pieces = WordPiece(["?", "a", "ab"], unk_id=0, max_chars=100)
    assert [pieces.ids(word) for word in ("ab", "aba", "b")] == [(2,), (0,), (0,)]
    pieces = WordPiece(["?", "a", "##", ""], unk_id=0, max_chars=100)
    assert [pieces.ids(word) for word in ("a", "aa")] == [(1,), (0,)]


def test_results_do_not_depend_on_what_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(25)
    texts = [unicode_string(rng) + " the tokenizer" for _ in range(400)]
    expected = [WordPieceTokenizer(VOCAB).encode_ids(text) for text in texts]
    monkeypatch.setattr(bertsmith.tokenization.tokenizer, "CACHE_SIZE", 7)
    tokenizer = WordPieceTokenizer(VOCAB)
    assert [tokenizer.encode_ids(text) for text in texts] == expected
    assert [tokenizer.encode(text).ids[1:-1] for text in texts] == expected
    for memory in (tokenizer._unit_ids, tokenizer._unit_pieces):
        assert len(memory) <= 7
        assert len(memory._older) <= 7


@pytest.mark.parametrize("settings", [*SETTINGS[::3], {"decoder_cleanup": False}])
def test_saved_folders_mean_the_same_to_everyone(settings: dict[str, Any], tmp_path: Path) -> None:
    added = [AddedToken(token) for token in SPECIAL_TOKENS]
    added += [AddedToken("[E1]", rstrip=True), AddedToken("Foo", normalized=True, special=False)]
    saved = WordPieceTokenizer(VOCAB, added_tokens=added, model_max_length=77, **settings)
    saved.save(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert loaded.settings() == saved.settings()
    assert loaded.fingerprint == saved.fingerprint
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert theirs.model_max_length == 77
    assert len(theirs) == saved.vocab_size
    rng = random.Random(26)
    texts = [unicode_string(rng) for _ in range(300)] + ["a [E1] Foo foo [MASK] it"]
    assert_same(saved, library, texts)
    for text in texts:
        found, encoded = saved.encode(text), theirs(text, return_offsets_mapping=True)
        assert encoded["input_ids"] == found.ids, ascii(text)
        assert [tuple(pair) for pair in encoded["offset_mapping"]] == found.offsets
        if saved.decoder_cleanup:  # transformers 5 does not read this setting
            assert theirs.decode(found.ids) == saved.decode(found.ids, skip_special_tokens=False)
    theirs.save_pretrained(tmp_path / "again")
    assert load_tokenizer(tmp_path / "again").fingerprint == saved.fingerprint


def test_vocab_txt_and_its_configuration_are_enough(tmp_path: Path) -> None:
    saved = WordPieceTokenizer(
        VOCAB, lowercase=False, strip_accents=True, tokenize_chinese_chars=False
    )
    saved.save(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    assert load_tokenizer(tmp_path).fingerprint == saved.fingerprint
    (tmp_path / "tokenizer_config.json").unlink()
    assert load_tokenizer(tmp_path).fingerprint == WordPieceTokenizer(VOCAB).fingerprint
    assert (
        load_tokenizer(tmp_path / "vocab.txt").fingerprint == WordPieceTokenizer(VOCAB).fingerprint
    )


def test_folders_of_early_transformers_are_read(tmp_path: Path) -> None:
    write_lines(tmp_path, ["<pad>", *VOCAB[1:]])
    write_object(tmp_path / "special_tokens_map.json", {"pad_token": {"content": "<pad>"}})
    write_object(tmp_path / "added_tokens.json", {"[E1]": len(VOCAB), "[E2]": len(VOCAB) + 1})
    write_object(tmp_path / "tokenizer_config.json", {"do_lower_case": False})
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.pad_id == 0
    assert not tokenizer.lowercase
    assert tokenizer.encode("[E2]A[MASK]").tokens == ["[CLS]", "[E2]", "A", "[MASK]", "[SEP]"]


def test_vocabularies_may_hold_unusual_line_ends(tmp_path: Path) -> None:
    vocab = [*VOCAB, "\u2028", "x\u2028", "\u0085", "\x0c", "\x1e"]
    write_lines(tmp_path, vocab)
    assert load_tokenizer(tmp_path).vocab == vocab
    (tmp_path / "vocab.txt").write_bytes("\r\n".join(vocab).encode())
    assert load_tokenizer(tmp_path).vocab == vocab


def write_lines(folder: Path, vocab: list[str]) -> None:
    (folder / "vocab.txt").write_bytes("".join(f"{token}\n" for token in vocab).encode())


def write_object(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        ("\n".join(VOCAB[1:]).encode(), r"lacks \[PAD\]"),
        ("\n".join([*VOCAB, "the"]).encode(), "'the' twice"),
        ("\n".join(VOCAB).encode() + b"\nab\xff", rf"vocab.txt:{len(VOCAB) + 1}: .*not UTF-8"),
    ],
)
def test_unusable_vocabularies_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(content)
    with pytest.raises(CheckpointError, match=message) as caught:
        load_tokenizer(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_missing_tokenizers_are_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has neither tokenizer\.json nor vocab\.txt"):
        load_tokenizer(tmp_path)
    with pytest.raises(CheckpointError, match="does not exist"):
        load_tokenizer(tmp_path / "absent")


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("model", {"type": "WordLevel", "vocab": {}}, "its model is WordLevel"),
        ("model", {"type": "BPE", "vocab": {}}, "a byte-bpe tokenizer and vocab.txt a wordpiece"),
        ("model", {"type": "Unigram", "vocab": []}, "a unigram tokenizer and vocab.txt a word"),
        ("normalizer", {"type": "NFC"}, "its normalizer is NFC"),
        ("normalizer", None, "its normalizer is absent"),
        ("pre_tokenizer", {"type": "ByteLevel"}, "its pre_tokenizer is ByteLevel"),
        ("decoder", {"type": "BPEDecoder"}, "its decoder is BPEDecoder"),
        ("post_processor", {"type": "RobertaProcessing"}, "RobertaProcessing"),
    ],
)
def test_other_tokenizers_are_refused_by_name(
    part: str, value: Any, message: str, tmp_path: Path
) -> None:
    WordPieceTokenizer(VOCAB).save(tmp_path)
    path = tmp_path / "tokenizer.json"
    write_object(path, json.loads(path.read_text(encoding="utf-8")) | {part: value})
    with pytest.raises(CheckpointError, match=message):
        load_tokenizer(tmp_path)


def test_constructor_refuses_what_it_cannot_number() -> None:
    for vocab in ([], VOCAB[:4], [*VOCAB, "the"], [*VOCAB, "a\nb"]):
        with pytest.raises(ConfigError, match="vocabulary"):
            WordPieceTokenizer(vocab)


def test_fingerprint_covers_what_decides_ids_and_nothing_else() -> None:
    reference = WordPieceTokenizer(VOCAB).fingerprint
    assert len(reference) == 64
    same = [
        WordPieceTokenizer(VOCAB, strip_accents=True),
        WordPieceTokenizer(VOCAB, model_max_length=9),
    ]
    assert [tokenizer.fingerprint for tokenizer in same] == [reference] * 2
    others = [
        WordPieceTokenizer([*VOCAB, "new"]),
        WordPieceTokenizer(VOCAB[:5] + VOCAB[6:] + VOCAB[5:6]),
        WordPieceTokenizer(VOCAB, lowercase=False),
        WordPieceTokenizer(VOCAB, strip_accents=False),
        WordPieceTokenizer(VOCAB, tokenize_chinese_chars=False),
        WordPieceTokenizer(VOCAB, max_input_chars_per_word=50),
        WordPieceTokenizer(VOCAB, added_tokens=[]),
    ]
    assert len({reference, *(tokenizer.fingerprint for tokenizer in others)}) == 8


def test_a_tokenizer_travels_to_other_processes() -> None:
    tokenizer = WordPieceTokenizer(VOCAB, lowercase=False, model_max_length=99)
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.settings() == tokenizer.settings()
    assert copy.encode("Tokenizing a [MASK]") == tokenizer.encode("Tokenizing a [MASK]")


def test_pieces_that_continue_a_word_are_told() -> None:
    added = [*map(AddedToken, SPECIAL_TOKENS), AddedToken("##new")]
    tokenizer = WordPieceTokenizer(
        [*SPECIAL_TOKENS, "a", "##a", "##", "#", "##b"], added_tokens=added
    )
    told = [tokenizer.vocab[i] for i in tokenizer.continues_word.nonzero()[0]]
    assert told == ["##a", "##b"]
    assert tokenizer.continues_word.shape == (tokenizer.vocab_size,)

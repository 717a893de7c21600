"""Byte-level BPE equals the `tokenizers` library: ids, offsets, text, and what is learnt."""

import itertools
import json
import pickle
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tiny_tokenizers import TEXT, tiny_byte_bpe
from tokenizers import decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer
from unicode_strings import unicode_string

from bertsmith.errors import CheckpointError, ConfigError, InputError
from bertsmith.tokenization.added_tokens import AddedToken
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.byte_bpe import (
    BYTE_CHARACTERS,
    ByteBpeTokenizer,
    clean_words,
    split_words,
)
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.vocabulary.byte_bpe import SPECIAL_TOKENS, learn_byte_bpe

SPACES = [(False, True), (False, False), (True, True), (True, False)]
TRICKY = [
    "",
    " ",
    "   ",
    "a  b   c ",
    "\n\n a\t\tb\r\n",
    "I'm they'll we've 'S 's 'tis 'd",
    "x1y22z ½ ² Ⅷ १२",
    "a <mask> b  <mask><mask>",
    "<mask>",
    "<s> </s><pad>",
    "👩‍👩‍👧 🇩🇪 ✌🏽 e\u0301",
    "שלום عالم ١٢",
    "漢字かな交じり文。",
    "\x00\x1f\x85\u200b\u180e\u2028",
    "ĠaĊb",
    "a" * 300,
]


def library_of(
    tokenizer: ByteBpeTokenizer, add_prefix_space: bool, trim_offsets: bool
) -> tokenizers.Tokenizer:
    vocab = {token: id_ for id_, token in enumerate(tokenizer.vocab[: tokenizer.num_pieces])}
    library = tokenizers.Tokenizer(models.BPE(vocab, list(tokenizer.merges)))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    library.decoder = decoders.ByteLevel()
    for token in tokenizer.added_tokens:
        library.add_special_tokens(
            [tokenizers.AddedToken(token.content, lstrip=token.lstrip, special=True)]
        )
    library.post_processor = processors.RobertaProcessing(
        ("</s>", library.token_to_id("</s>")),
        ("<s>", library.token_to_id("<s>")),
        trim_offsets,
        add_prefix_space,
    )
    return library


def assert_same(ours: Tokenizer, library: tokenizers.Tokenizer, *texts: str) -> None:
    found, theirs = ours.encode(*texts), library.encode(*texts)
    assert found.ids == theirs.ids, ascii(texts)
    assert found.tokens == theirs.tokens, ascii(texts)
    assert found.offsets == theirs.offsets, ascii(texts)
    assert found.type_ids == theirs.type_ids
    assert found.special_tokens_mask == theirs.special_tokens_mask
    assert found.sequence_ids == theirs.sequence_ids
    assert ours.decode(found.ids) == library.decode(theirs.ids), ascii(texts)
    whole = ours.decode(found.ids, skip_special_tokens=False)
    assert whole == library.decode(theirs.ids, skip_special_tokens=False)
    ids = [id_ for text in texts for id_ in ours.encode_ids(text)]
    assert ids == [i for i, n in zip(theirs.ids, theirs.sequence_ids, strict=True) if n is not None]


@pytest.fixture(scope="module")
def gpt2(data_dir: Path) -> ByteBpeTokenizer:
    tokenizer = load_tokenizer(data_dir / "vocabs" / "gpt2")
    assert isinstance(tokenizer, ByteBpeTokenizer)
    return tokenizer


@pytest.mark.parametrize(("add_prefix_space", "trim_offsets"), SPACES)
def test_random_strings_are_encoded_as_in_the_library(
    add_prefix_space: bool, trim_offsets: bool
) -> None:
    ours = tiny_byte_bpe(add_prefix_space=add_prefix_space, trim_offsets=trim_offsets)
    library = library_of(ours, add_prefix_space, trim_offsets)
    rng = random.Random(31)
    texts = [*TRICKY, TEXT, *(unicode_string(rng) for _ in range(600))]
    for text, pair in itertools.pairwise(texts):
        assert_same(ours, library, text)
        assert_same(ours, library, text, pair)


@pytest.mark.parametrize(("add_prefix_space", "trim_offsets"), SPACES)
def test_the_vocabulary_of_gpt2_agrees_on_random_strings(
    add_prefix_space: bool, trim_offsets: bool, gpt2: ByteBpeTokenizer
) -> None:
    ours = ByteBpeTokenizer(
        gpt2.vocab[: gpt2.num_pieces],
        gpt2.merges,
        add_prefix_space=add_prefix_space,
        trim_offsets=trim_offsets,
    )
    library = library_of(ours, add_prefix_space, trim_offsets)
    rng = random.Random(32)
    for text in [*TRICKY, *(unicode_string(rng) for _ in range(700))]:
        assert_same(ours, library, text)


@pytest.mark.parametrize("corpus", ["enwiki", "zhwiki"])
def test_the_vocabulary_of_gpt2_agrees_on_real_lines(
    corpus: str, gpt2: ByteBpeTokenizer, data_dir: Path
) -> None:
    library = library_of(gpt2, False, True)
    lines = (data_dir / corpus / "small.txt").read_text(encoding="utf-8")[:200_000].split("\n")
    ids, lengths = gpt2.encode_batch_ids(lines)
    theirs = library.encode_batch(lines, add_special_tokens=False)
    assert lengths.tolist() == [len(row.ids) for row in theirs]
    assert ids.tolist() == [id_ for row in theirs for id_ in row.ids]


@pytest.fixture(scope="module")
def tiny_pair() -> tuple[ByteBpeTokenizer, tokenizers.Tokenizer]:
    ours = tiny_byte_bpe()
    return ours, library_of(ours, False, True)


@given(text=st.text(st.characters(codec="utf-8")))
def test_any_text_is_encoded_as_in_the_library_and_comes_back(
    text: str, tiny_pair: tuple[ByteBpeTokenizer, tokenizers.Tokenizer]
) -> None:
    ours, library = tiny_pair
    assert_same(ours, library, text)
    if "<" not in text:
        assert ours.decode(ours.encode_ids(text)) == text


def test_lone_surrogates_are_left_out_and_counted_in_offsets() -> None:
    ours = tiny_byte_bpe()
    text = "the \ud800sea \udfff漢"
    clean = text.encode("utf-8", "ignore").decode()
    assert ours.encode_ids(text) == ours.encode_ids(clean)
    found = ours.encode(text)
    assert "".join(text[start:end] for start, end in found.offsets if end).count("sea") == 1
    assert text[slice(*found.offsets[-2])] == "漢"


@pytest.mark.parametrize("length", [0, 1, 2, 7, 23, 24, 25, 40, 400])
def test_long_runs_are_merged_as_in_the_library(length: int) -> None:
    ours = ByteBpeTokenizer(
        [*SPECIAL_TOKENS, *BYTE_CHARACTERS, "aa", "aaa", "ab", "aab", "ba"],
        [("a", "a"), ("aa", "a"), ("a", "b"), ("a", "ab"), ("b", "a")],
    )
    library = library_of(ours, False, True)
    rng = random.Random(length)
    for _ in range(20):
        assert_same(ours, library, "".join(rng.choices("aab", k=length)))


def test_words_are_cut_by_the_pattern_of_gpt2_whatever_the_characters() -> None:
    pattern = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rng = random.Random(33)
    for text in [*TRICKY, *(unicode_string(rng) for _ in range(1500))]:
        spans = [span for _, span in pattern.pre_tokenize_str(text)]
        assert split_words(text) == [text[start:end] for start, end in spans], ascii(text)


def test_what_is_learnt_is_what_the_library_learns() -> None:
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


def test_a_vocabulary_without_room_for_the_bytes_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 261"):
        learn_byte_bpe({"a": 1}, 260)


@pytest.mark.parametrize("settings", [{}, {"add_prefix_space": True}, {"trim_offsets": False}])
def test_saved_folders_mean_the_same_to_everyone(settings: dict[str, Any], tmp_path: Path) -> None:
    saved = tiny_byte_bpe(model_max_length=77, **settings)
    saved.save(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert loaded.settings() == saved.settings()
    assert loaded.fingerprint == saved.fingerprint
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert (theirs.model_max_length, len(theirs)) == (77, saved.vocab_size)
    assert theirs.mask_token_id == saved.mask_id
    assert theirs.pad_token_id == saved.pad_id == 1
    rng = random.Random(35)
    for text in [*TRICKY, *(unicode_string(rng) for _ in range(200))]:
        found, encoded = saved.encode(text), theirs(text, return_offsets_mapping=True)
        assert encoded["input_ids"] == found.ids, ascii(text)
        assert [tuple(pair) for pair in encoded["offset_mapping"]] == found.offsets, ascii(text)
        assert_same(saved, tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")), text)
    theirs.save_pretrained(tmp_path / "again")
    assert load_tokenizer(tmp_path / "again").fingerprint == saved.fingerprint


def test_vocab_json_and_merges_txt_are_enough(tmp_path: Path) -> None:
    saved = tiny_byte_bpe(add_prefix_space=True)
    saved.save(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    assert load_tokenizer(tmp_path).fingerprint == saved.fingerprint
    (tmp_path / "tokenizer_config.json").unlink()
    for path in (tmp_path, tmp_path / "merges.txt", tmp_path / "vocab.json"):
        assert load_tokenizer(path).fingerprint == tiny_byte_bpe().fingerprint


def test_words_that_are_given_are_encoded_as_in_transformers(tmp_path: Path) -> None:
    ours = tiny_byte_bpe()
    ours.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path, add_prefix_space=True)
    words = ["The", "river", ",", "don't", "漢字", "a b", " sea"]
    expected = theirs(words, is_split_into_words=True, add_special_tokens=False)
    ids, counts = ours.encode_word_ids(words)
    assert ids.tolist() == expected["input_ids"]
    places = [place for place, count in enumerate(counts.tolist()) for _ in range(count)]
    assert places == expected.word_ids()


def test_added_tokens_are_found_in_text_as_in_the_library(tmp_path: Path) -> None:
    added = [*map(AddedToken, SPECIAL_TOKENS[:4]), AddedToken("<mask>", lstrip=True)]
    added += [AddedToken("[E1]", rstrip=True), AddedToken("sea", normalized=True, special=False)]
    tiny = tiny_byte_bpe()
    ours = ByteBpeTokenizer(tiny.vocab, tiny.merges, added_tokens=added)
    ours.save(tmp_path)
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in ("the sea [E1] is <mask> wide", "sea", " seasea[E1]  sea <s>"):
        assert_same(ours, library, text)


def test_a_tokenizer_travels_to_other_processes() -> None:
    tokenizer = tiny_byte_bpe(model_max_length=99)
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.settings() == tokenizer.settings()
    assert copy.encode("the <mask> runs") == tokenizer.encode("the <mask> runs")


def test_tokens_say_whether_they_continue_a_word() -> None:
    tokenizer = tiny_byte_bpe()
    continues = dict(zip(tokenizer.vocab, tokenizer.continues_word.tolist(), strict=True))
    assert continues["e"] and continues["a"] and continues["Ã"]
    starts = ("Ġthe", "Ġ", ",", "'", "Ċ", "<s>", "<mask>", "<pad>")
    assert not any(continues[token] for token in starts)


def test_ids_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="token id 9999 "):
        tiny_byte_bpe().decode([9999])


def edited(folder: Path, **changes: Any) -> None:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes))


def test_a_merge_of_unknown_pieces_is_refused(tmp_path: Path) -> None:
    tiny_byte_bpe().save(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "tokenizer_config.json").unlink()
    with (tmp_path / "merges.txt").open("a", encoding="utf-8") as file:
        file.write("qqq z\n")
    with pytest.raises(CheckpointError, match="joins 'qqq' and 'z', but the vocabulary lacks 'q"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("merges.txt", "#version: 0.2\nt h\nx\n", r"merges.txt:3: found 'x'"),
        (
            "merges.txt",
            "Ġ t\nqqq z\n",
            r"merges.txt: cut off, or of another vocabulary: none of its 2",
        ),
        ("merges.txt", b"t h\n\xff x", "not UTF-8"),
        ("vocab.json", '{"a": 0}', "lacks 255 of the 256 bytes"),
        ("vocab.json", '{"a": 0, "b": 0}', "Ids must run from 0"),
        ("vocab.json", '{"a": ', "not valid JSON"),
        ("vocab.json", None, "vocab.json: missing"),
    ],
)
def test_damaged_folders_are_refused(
    name: str, content: str | bytes | None, message: str, tmp_path: Path
) -> None:
    tiny_byte_bpe().save(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "tokenizer_config.json").unlink()
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(CheckpointError, match=message) as caught:
        load_tokenizer(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pre_tokenizer": {"type": "Whitespace"}}, "its pre_tokenizer is Whitespace"),
        ({"normalizer": {"type": "NFC"}}, "it has a normalizer"),
        ({"decoder": {"type": "BPEDecoder"}}, "its decoder is BPEDecoder"),
        ({"post_processor": {"type": "ByteLevel"}}, r"post_processor \(ByteLevel\)"),
        ({"post_processor": None}, r"post_processor \(absent\)"),
        ({"model": {"type": "BPE", "vocab": {}, "merges": [3]}}, "merge 1: found '3'"),
        ({"model": {"type": "BPE", "vocab": {}, "merges": [], "dropout": 0.1}}, "dropout is 0.1"),
    ],
)
def test_other_tokenizers_are_refused_by_name(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    tiny_byte_bpe().save(tmp_path)
    edited(tmp_path, **changes)
    with pytest.raises(CheckpointError, match=message):
        load_tokenizer(tmp_path)

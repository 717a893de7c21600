"""SentencePiece's unigram models equal the `tokenizers` library, from either kind of file."""

import itertools
import json
import pickle
import random
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from test_byte_bpe import TRICKY, assert_same
from tiny_tokenizers import TEXT, tiny_unigram, unigram_pieces
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer
from transformers.models.albert import AlbertTokenizer
from unicode_strings import unicode_string

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.tokenization.added_tokens import AddedToken
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.charsmap import CharacterMap
from bertsmith.tokenization.sentencepiece_model import read_sentencepiece
from bertsmith.tokenization.unigram import ALBERT_STEPS, Step, UnigramNormalizer, UnigramTokenizer
from bertsmith.vocabulary.hf_trainer import learn_unigram

STEPS: list[tuple[Step, ...]] = [
    (),
    ("quotes",),
    ("decompose",),
    ("lowercase",),
    ("decompose", "strip_accents"),
    ALBERT_STEPS,
]


def library_of(tokenizer: UnigramTokenizer) -> tokenizers.Tokenizer:
    pieces = list(zip(tokenizer.vocab, tokenizer.scores, strict=False))
    library = tokenizers.Tokenizer(models.Unigram(pieces, tokenizer.unk_id, byte_fallback=False))
    known: dict[str, list[Any]] = {
        "quotes": [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')],
        "decompose": [normalizers.NFKD()],
        "strip_accents": [normalizers.StripAccents()],
        "lowercase": [normalizers.Lowercase()],
        "charsmap": [normalizers.Precompiled(tokenizer.charsmap)] if tokenizer.charsmap else [],
    }
    library.normalizer = normalizers.Sequence(
        [normalizer for step in tokenizer.steps for normalizer in known[step]]
    )
    mark = {"replacement": "▁", "prepend_scheme": "always"}
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(**mark)]
    )
    library.decoder = decoders.Metaspace(**mark)
    for token in tokenizer.added_tokens:
        library.add_special_tokens(
            [tokenizers.AddedToken(token.content, lstrip=token.lstrip, special=True)]
        )
    library.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(token, library.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    return library


def texts_to_try(count: int) -> list[str]:
    rng = random.Random(41)
    own = [
        "``x'' '''' ```",
        "▁a▁▁b",
        "1,000, 9, 10,",
        "a [MASK] b  [MASK]",
        "the <unk> sea",
        "日 本",
    ]
    return [*TRICKY, *own, TEXT, *(unicode_string(rng) for _ in range(count))]


@pytest.mark.parametrize("steps", STEPS)
def test_random_strings_are_encoded_as_in_the_library(steps: tuple[Step, ...]) -> None:
    ours = tiny_unigram(steps=steps)
    library = library_of(ours)
    texts = texts_to_try(500)
    for text, pair in itertools.pairwise(texts):
        assert_same(ours, library, text)
        assert_same(ours, library, text, pair)


@pytest.fixture(scope="module")
def t5_file(data_dir: Path) -> Path:
    return data_dir / "vocabs" / "t5" / "spiece.model"


@pytest.fixture(scope="module")
def t5(t5_file: Path) -> UnigramTokenizer:
    """T5's pieces as they are, with the table of its normalization alone."""
    model = read_sentencepiece(t5_file.read_bytes(), t5_file)
    return UnigramTokenizer(
        model.pieces, model.scores, steps=("charsmap",), charsmap=model.charsmap
    )


def begins_with_nothing(text: str, charsmap: CharacterMap) -> bool:
    """Whether something is removed, which the library's offsets do not survive at the start."""
    return any(charsmap.image(char) == "" for char in text)


@pytest.mark.parametrize("steps", [("charsmap",), ALBERT_STEPS])
def test_the_pieces_of_t5_agree_on_random_strings(
    steps: tuple[Step, ...], t5: UnigramTokenizer
) -> None:
    ours = UnigramTokenizer(t5.vocab[: t5.num_pieces], t5.scores, steps=steps, charsmap=t5.charsmap)
    library, charsmap = library_of(ours), CharacterMap(t5.charsmap)
    compared = 0
    for text in texts_to_try(900):
        if begins_with_nothing(text, charsmap):
            assert ours.encode(text).ids == library.encode(text).ids, ascii(text)
        else:
            assert_same(ours, library, text)
            compared += 1
    assert compared > 600


def test_offsets_stay_right_where_the_first_characters_vanish(t5: UnigramTokenizer) -> None:
    text = "\x01\x02river\x03 run"
    found = t5.encode(text)
    places = dict(zip(found.tokens, found.offsets, strict=True))
    assert text[slice(*places["▁river"])] == "river"
    assert text[slice(*places["▁run"])] == "run"


@pytest.mark.parametrize("corpus", ["enwiki", "zhwiki"])
def test_the_pieces_of_t5_agree_on_real_lines(
    corpus: str, t5: UnigramTokenizer, data_dir: Path
) -> None:
    lines = (data_dir / corpus / "small.txt").read_text(encoding="utf-8")[:100_000].split("\n")
    ids, lengths = t5.encode_batch_ids(lines)
    theirs = library_of(t5).encode_batch(lines, add_special_tokens=False)
    assert lengths.tolist() == [len(row.ids) for row in theirs]
    assert ids.tolist() == [id_ for row in theirs for id_ in row.ids]


def test_every_character_is_normalized_as_in_the_library(t5: UnigramTokenizer) -> None:
    ours, theirs = CharacterMap(t5.charsmap), normalizers.Precompiled(t5.charsmap)
    for first in (0, 0x2000, 0x3000, 0xA000, 0xE000, 0xF900, 0x1D000, 0x1F000, 0x2F800):
        text = "".join(f"a{chr(code)}\u0301" for code in range(first, first + 0x1000))
        text = text.encode("utf-8", "ignore").decode()
        assert ours.align(text)[0] == theirs.normalize_str(text), hex(first)


def test_a_sentencepiece_file_is_read_as_alberts(t5_file: Path) -> None:
    tokenizer = load_tokenizer(t5_file)
    assert isinstance(tokenizer, UnigramTokenizer)
    assert tokenizer.vocab[:3] == ["<pad>", "</s>", "<unk>"]
    assert tokenizer.vocab[-3:] == ["[CLS]", "[SEP]", "[MASK]"]
    assert tokenizer.steps == ALBERT_STEPS
    assert tokenizer.encode("The café").tokens == tokenizer.encode("the cafe").tokens
    numbers = [token for token in tokenizer.encode("9, 10, 1,000").tokens if "," in token]
    assert not any(token[-1] == "," and token[-2:-1].isdigit() for token in numbers)


@given(text=st.text(st.characters(codec="utf-8")))
def test_any_text_is_encoded_as_in_the_library(text: str) -> None:
    assert_same(OURS, LIBRARY, text)


OURS = tiny_unigram()
LIBRARY = library_of(OURS)


def test_what_is_learnt_is_read_by_alberts_tokenizer(tmp_path: Path) -> None:
    normalizer = UnigramNormalizer(ALBERT_STEPS, b"")
    counts: dict[str, int] = {}
    for word in normalizer.words(TEXT * 5):
        counts[word] = counts.get(word, 0) + 1
    learned = learn_unigram(counts, 90)
    assert learned.tokens[:5] == ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    assert len(learned.tokens) == len(learned.scores) <= 90
    ours = UnigramTokenizer(learned.tokens, learned.scores)
    pieces = list(zip(learned.tokens, learned.scores, strict=True))
    theirs = AlbertTokenizer(vocab=pieces)
    for text in texts_to_try(200):
        assert theirs(text)["input_ids"] == ours.encode(text).ids, ascii(text)
    with pytest.raises(ConfigError, match="too small for 5 special tokens"):
        learn_unigram(counts, 20)


def test_clauses_without_spaces_are_learnt_from() -> None:
    rng = random.Random(0)
    words = ["北京", "大学", "学习", "语言", "我们", "今天"]
    counts = {"▁" + "".join(rng.choices(words, k=90)): 1 for _ in range(60)}
    assert min(map(len, counts)) > 100
    learned = learn_unigram({**counts, "▁" + "龘" + "北京" * 60: 1}, 40)
    pieces = [token.lstrip("▁") for token in learned.tokens[5:]]
    of_words = re.compile(f"({'|'.join(words)})+")
    assert sum(of_words.fullmatch(piece) is not None for piece in pieces) > 20
    assert list(learned.dropped_characters) == ["龘"] and learned.skipped_words == 1


def test_a_special_token_in_the_text_is_learnt_once() -> None:
    counts = {"▁(<unk>)": 50, "▁<unk>.": 50, "▁hello<pad><pad>": 50, "▁hello": 90, "▁of": 70}
    learned = learn_unigram(counts, 40)
    assert len(set(learned.tokens)) == len(learned.tokens) == len(learned.scores)
    assert learned.tokens[:2] == ["<pad>", "<unk>"]
    UnigramTokenizer(learned.tokens, learned.scores)


@pytest.mark.parametrize("steps", [ALBERT_STEPS, ("quotes", "lowercase"), ("decompose",), ()])
def test_saved_folders_mean_the_same_to_everyone(steps: tuple[Step, ...], tmp_path: Path) -> None:
    saved = tiny_unigram(steps=steps, model_max_length=77)
    saved.save(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert loaded.fingerprint == saved.fingerprint
    assert loaded.settings() == saved.settings()
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert (theirs.model_max_length, len(theirs)) == (77, saved.vocab_size)
    assert theirs.mask_token_id == saved.mask_id
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in texts_to_try(150):
        found, encoded = loaded.encode(text), theirs(text, return_offsets_mapping=True)
        assert found == saved.encode(text)
        assert encoded["input_ids"] == found.ids, ascii(text)
        assert [tuple(pair) for pair in encoded["offset_mapping"]] == found.offsets, ascii(text)
        assert_same(loaded, library, text)


def test_a_table_is_kept_in_a_saved_folder(t5: UnigramTokenizer, tmp_path: Path) -> None:
    t5.save(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert loaded.fingerprint == t5.fingerprint
    assert loaded.settings() == t5.settings()
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert_same(loaded, library, "Ｆｕｌｌ ﬁne ½ [MASK]")


def test_words_that_are_given_are_encoded_as_in_transformers(tmp_path: Path) -> None:
    ours = tiny_unigram()
    ours.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    words = ["The", "river", ",", "don't", "漢字", "a b", " sea"]
    expected = theirs(words, is_split_into_words=True, add_special_tokens=False)
    ids, counts = ours.encode_word_ids(words)
    assert ids.tolist() == expected["input_ids"]
    places = [place for place, count in enumerate(counts.tolist()) for _ in range(count)]
    assert places == expected.word_ids()


def test_added_tokens_are_found_in_text_as_in_the_library(tmp_path: Path) -> None:
    added = [*map(AddedToken, unigram_pieces()[0][:5])]
    added += [AddedToken("[E1]", rstrip=True), AddedToken("Sea", normalized=True, special=False)]
    ours = tiny_unigram(added_tokens=added)
    ours.save(tmp_path)
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in ("the sea [E1] is [MASK] wide", "SEA", " seasea[E1]  sea [CLS]"):
        assert_same(ours, library, text)


def test_lone_surrogates_are_left_out_and_counted_in_offsets() -> None:
    text = "the \ud800sea \udfff漢"
    found = OURS.encode(text)
    assert found.ids == OURS.encode(text.encode("utf-8", "ignore").decode()).ids
    assert text[slice(*found.offsets[-2])] == "漢"


def test_a_tokenizer_travels_to_other_processes() -> None:
    copy = pickle.loads(pickle.dumps(OURS))
    assert copy.settings() == OURS.settings()
    assert copy.encode("the [MASK] runs") == OURS.encode("the [MASK] runs")


def test_tokens_say_whether_they_continue_a_word() -> None:
    continues = dict(zip(OURS.vocab, OURS.continues_word.tolist(), strict=True))
    assert continues["er"] and continues["a"]
    assert not any(continues[token] for token in ("▁the", "▁", ",", "漢", "[CLS]", "<unk>"))


def sentencepiece_file(
    pieces: Sequence[tuple[str, float, int]], model_type: int = 1, charsmap: bytes = b""
) -> bytes:
    """The protocol buffer of a model, as sentencepiece writes it."""

    def field(number: int, value: bytes) -> bytes:
        assert len(value) < 128
        return bytes([number << 3 | 2, len(value)]) + value

    entries = (
        field(1, piece.encode()) + b"\x15" + struct.pack("<f", score) + bytes([3 << 3, type_])
        for piece, score, type_ in pieces
    )
    normalizer = field(1, b"nmt_nfkc") + (field(2, charsmap) if charsmap else b"")
    return (
        b"".join(field(1, entry) for entry in entries)
        + field(2, bytes([3 << 3, model_type]))
        + field(3, normalizer)
    )


PIECES = [
    ("<pad>", 0.0, 3),
    ("<unk>", 0.0, 2),
    ("[CLS]", 0.0, 3),
    ("[SEP]", 0.0, 3),
    ("[MASK]", 0.0, 4),
    ("▁a", -1.5, 1),
    ("9,", -1.0, 1),
    ("9", -2.0, 1),
    (",", -2.5, 1),
    ("▁", -3.0, 1),
]


def test_alberts_own_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "spiece.model").write_bytes(sentencepiece_file(PIECES))
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.vocab == [piece for piece, _, _ in PIECES]
    assert "lowercase" not in tokenizer.settings()["steps"]
    assert tokenizer.encode("a 9, [MASK]").tokens[1:-1] == ["▁a", "▁", "9", ",", " [MASK]"]
    assert tokenizer.special_ids == {0, 1, 2, 3, 4}


INTACT = sentencepiece_file(PIECES)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no pieces"),
        (INTACT[:-3], "damaged"),
        (INTACT[:5], "damaged"),
        (b"\x0b" + INTACT, "wire type 3"),
        (b"\xff" * 20, "damaged"),
        (sentencepiece_file(PIECES, model_type=2), "of the kind BPE"),
        (sentencepiece_file([PIECES[0], *PIECES[2:]]), "0 unknown pieces"),
        (sentencepiece_file([*PIECES, PIECES[-1]]), "'▁' twice"),
        (sentencepiece_file(PIECES, charsmap=b"\x40\0\0\0xy"), "normalization table has 6 bytes"),
    ],
)
def test_damaged_files_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "spiece.model"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=message) as caught:
        load_tokenizer(tmp_path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "spiece.model"
    for size in range(len(INTACT)):
        path.write_bytes(INTACT[:size])
        with pytest.raises(CheckpointError, match=r"spiece\.model"):
            load_tokenizer(path)


def test_any_damage_is_a_checkpoint_error_or_harmless(tmp_path: Path) -> None:
    path, rng, refused = tmp_path / "spiece.model", random.Random(42), 0
    for _ in range(300):
        damaged = bytearray(INTACT)
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(bytes(damaged))
        try:
            load_tokenizer(path).encode("a 9, [MASK]")
        except CheckpointError:
            refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("normalizer", {"type": "NFC"}, "its normalizer is NFC"),
        ("normalizer", {"type": "Sequence", "normalizers": [{"type": "NFC"}]}, "not one of ALB"),
        ("pre_tokenizer", {"type": "Sequence", "pretokenizers": []}, "its pre_tokenizer is not"),
        ("model", {"type": "Unigram", "unk_id": 7, "vocab": [["a", 0]]}, "unk_id is 7"),
        ("model", {"type": "Unigram", "unk_id": 0, "vocab": [["a"]]}, "piece 0 is"),
        ("model", {"type": "Unigram", "unk_id": None, "vocab": []}, "'unk_id' is missing"),
        ("post_processor", {"type": "RobertaProcessing"}, "RobertaProcessing"),
    ],
)
def test_other_tokenizers_are_refused_by_name(
    part: str, value: Any, message: str, tmp_path: Path
) -> None:
    OURS.save(tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {part: value}))
    with pytest.raises(CheckpointError, match=message):
        load_tokenizer(tmp_path)

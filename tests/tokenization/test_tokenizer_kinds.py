"""Each kind of tokenizer equals the `tokenizers` library and transformers in all its settings."""

import itertools
import json
import pickle
import random
import warnings

import pytest
from library_tokenizers import (
    assert_same,
    assert_same_batch,
    library_of,
    sentencepiece_file,
    texts_to_try,
)
from refusals import refuses
from tiny_tokenizers import TINY, tiny_byte_bpe, tiny_unigram, tiny_wordpiece
from transformers import AutoTokenizer

from bertsmith.errors import CheckpointError, InputError
from bertsmith.tokenization.added_tokens import AddedToken
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.tokenizer_class import CLASSES
from bertsmith.tokenization.unigram_normalizer import ALBERT_STEPS

VARIANTS = [
    (tiny_wordpiece, {}),
    (tiny_wordpiece, {"lowercase": False, "tokenize_chinese_chars": False}),
    (tiny_wordpiece, {"strip_accents": False, "decoder_cleanup": False}),
    (tiny_wordpiece, {"lowercase": False, "strip_accents": True}),
    (tiny_byte_bpe, {"add_prefix_space": True, "trim_offsets": False}),
    (tiny_byte_bpe, {"add_prefix_space": False, "trim_offsets": True}),
    *((tiny_unigram, {"steps": steps}) for steps in ((), ("lowercase",), ALBERT_STEPS)),
]


@pytest.mark.parametrize(("make", "settings"), VARIANTS)
def test_random_strings_are_encoded_as_in_the_library(make, settings):
    ours, rng = make(**settings), random.Random(7)
    library, texts = library_of(ours), texts_to_try(40)
    for text, pair in itertools.pairwise(texts):
        assert_same(ours, library, text)
        assert_same(ours, library, text, pair)
        if len(text + pair) < 100:  # the library keeps every overlap of what is cut off
            assert_same(ours, library, text, pair, max_length=rng.randrange(4, 40))
    assert_same_batch(ours, library, texts)


def change_json(file, **changes):
    """Change a JSON file, which is made where it is missing; None takes an entry out."""
    settings = json.loads(file.read_text()) if file.exists() else {}
    settings = {key: value for key, value in (settings | changes).items() if value is not None}
    file.write_text(json.dumps(settings))


def saved_without_sums(kind, folder, *, only_own_files=False):
    """Save a tiny tokenizer; with `only_own_files` as it was before tokenizer.json."""
    tiny = TINY[kind]()
    tiny.save(folder)
    (folder / "SHA256SUMS").unlink()
    if only_own_files:
        (folder / "tokenizer.json").unlink()
    if only_own_files and kind == "unigram":
        pieces = [(piece, -1.0, 1 + (piece == "<unk>")) for piece in tiny.vocab]
        (folder / "spiece.model").write_bytes(sentencepiece_file(pieces))
    return folder


OTHER_CLASSES = [
    "BertJapaneseTokenizer", "T5Tokenizer", "XLNetTokenizerFast", "XLMRobertaTokenizer",
    "MPNetTokenizerFast", "GPT2Tokenizer", "HerbertTokenizerFast", "CanineTokenizer", "MyTokenizer",
]  # fmt: skip
OWN_CLASSES = {
    "wordpiece": "BertTokenizer", "byte-bpe": "RobertaTokenizer", "unigram": "AlbertTokenizer"
}  # fmt: skip


@pytest.mark.parametrize("file", ["tokenizer_config.json", "config.json"])
@pytest.mark.parametrize("kind", TINY)
def test_classes_that_cut_text_otherwise_are_refused(kind, file, tmp_path):
    of_other_kinds = [name for other, name in OWN_CLASSES.items() if other != kind]
    for only_own_files in (False, True):
        folder = saved_without_sums(kind, tmp_path / kind, only_own_files=only_own_files)
        change_json(folder / "tokenizer_config.json", tokenizer_class=None)
        for name in (*OTHER_CLASSES, *of_other_kinds, ["A", None]):
            change_json(folder / file, tokenizer_class=name)
            is_worded = name in ("T5Tokenizer", "BertTokenizer")
            with refuses(CheckpointError, str(folder / file), json.dumps(name), worded=is_worded):
                load_tokenizer(folder)


@pytest.mark.parametrize("kind", TINY)
def test_every_class_that_is_read_gives_the_ids_of_transformers(kind, tmp_path):
    folder = saved_without_sums(kind, tmp_path)
    for name in sorted(CLASSES[kind] | {"PreTrainedTokenizerFast", "TokenizersBackend"}):
        for ending in ("", "Fast") if name.endswith("Tokenizer") else ("",):
            change_json(folder / "tokenizer_config.json", tokenizer_class=name + ending)
            ours, theirs = load_tokenizer(folder), AutoTokenizer.from_pretrained(folder)
            for text in ("Who runs the café?", "漢字 12 doors."):
                assert ours.encode(text).ids == theirs(text)["input_ids"], name


@pytest.mark.parametrize("kind", TINY)
def test_what_transformers_writes_again_is_read(kind, tmp_path):
    ours = TINY[kind]()
    ours.save(tmp_path / "ours")
    AutoTokenizer.from_pretrained(tmp_path / "ours").save_pretrained(tmp_path / "theirs")
    again = load_tokenizer(tmp_path / "theirs")
    assert again.encode("Who runs the café?").ids == ours.encode("Who runs the café?").ids


@pytest.mark.parametrize("file", ["tokenizer_config.json", "config.json"])
@pytest.mark.parametrize("auto_map", [{"AutoTokenizer": ["tok.Mine", None]}, ["tok.Mine", None]])
def test_tokenizers_that_are_programs_are_refused(file, auto_map, tmp_path):
    folder = saved_without_sums("wordpiece", tmp_path)
    change_json(folder / "tokenizer_config.json", tokenizer_class=None)
    change_json(folder / file, auto_map={"AutoModel": "model.Mine"})
    load_tokenizer(folder)
    change_json(folder / file, auto_map=auto_map)
    with refuses(CheckpointError, str(folder / file), "auto_map", "tok.Mine"):
        load_tokenizer(folder)


def test_the_class_is_named_where_no_tokenizer_of_ours_is(tmp_path):
    change_json(tmp_path / "tokenizer_config.json", tokenizer_class="CanineTokenizer")
    with refuses(CheckpointError, str(tmp_path / "tokenizer_config.json"), "CanineTokenizer"):
        load_tokenizer(tmp_path)


def test_a_class_of_null_counts_as_none_so_that_the_error_names_the_other_file(tmp_path):
    change_json(tmp_path / "tokenizer_config.json", tokenizer_class=None)
    change_json(tmp_path / "config.json", tokenizer_class="CanineTokenizer")
    with refuses(CheckpointError, str(tmp_path / "config.json"), "CanineTokenizer"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("kind", TINY)
def test_added_tokens_of_early_transformers_keep_their_ids(kind, tmp_path):
    tiny = TINY[kind]()
    tiny.save(tmp_path)
    for name in ("tokenizer.json", "SHA256SUMS"):
        (tmp_path / name).unlink()
    if kind == "unigram":
        (tmp_path / "spiece.model").write_bytes(
            sentencepiece_file([(piece, -1.0, 1 + (piece == "<unk>")) for piece in tiny.vocab])
        )
    extra = {"[URL]": tiny.vocab_size + 2, "<new>": tiny.vocab_size + 1, "Word": tiny.vocab_size}
    model_type = {"wordpiece": "bert", "byte-bpe": "roberta", "unigram": "albert"}[kind]
    for name, content in (
        ("config.json", {"model_type": model_type}),
        ("tokenizer_config.json", {"additional_special_tokens": ["[URL]"]}),
        ("added_tokens.json", extra),
    ):
        (tmp_path / name).write_text(json.dumps(content))
    ours = load_tokenizer(tmp_path)
    assert {name: ours.token_to_id(name) for name in extra} == extra
    assert ours.special_ids == tiny.special_ids | {extra["[URL]"]}
    if kind != "unigram":  # which needs sentencepiece
        theirs = AutoTokenizer.from_pretrained(tmp_path)
        text = "the Word [URL]river<new> runs [url] word"
        assert ours.encode(text).ids == theirs(text)["input_ids"]


@pytest.mark.parametrize("kind", TINY)
def test_added_tokens_that_a_tokenizer_json_lacks_follow_its_own(kind, tmp_path):
    """Someone added tokens to an old folder by hand; transformers reads the file, too."""
    size = TINY[kind]().vocab_size
    saved_without_sums(kind, tmp_path)
    config = tmp_path / "tokenizer_config.json"
    mask = json.loads(config.read_text())["mask_token"]
    listed = json.loads(config.read_text())["added_tokens_decoder"]
    extra = {"<url>": size + 1, "River": size, mask: TINY[kind]().mask_id}
    change_json(tmp_path / "added_tokens.json", **extra)
    assert load_tokenizer(tmp_path).vocab_size == size  # the config has a list, so it is not read
    change_json(config, added_tokens_decoder=None, extra_special_tokens=["<url>"])
    ours, theirs = load_tokenizer(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    assert ours.vocab_size == len(theirs) == size + 2
    for text in (f"the River runs<url>to <URL> {mask} river", f"riverRIVER {mask}"):
        assert ours.encode(text).ids == theirs(text)["input_ids"]
    assert ours.special_ids == {*TINY[kind]().special_ids, size + 1} == {*theirs.all_special_ids}
    ours.save(tmp_path / "again")
    assert load_tokenizer(tmp_path / "again").fingerprint == ours.fingerprint
    change_json(config, added_tokens_decoder=listed)
    assert load_tokenizer(tmp_path).token_to_id("River") is None
    change_json(config, added_tokens_decoder=None)
    change_json(tmp_path / "added_tokens.json", River=size + 7)
    with refuses(CheckpointError, "added_tokens.json: the added token '<url>' has id", f"{size}"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe"])
def test_names_of_the_special_tokens_map_count_as_in_transformers(kind, listed, tmp_path):
    """They count unless the config lists added tokens by id, as since transformers 4.34."""
    saved_without_sums(kind, tmp_path, only_own_files=True)
    config, token_map = tmp_path / "tokenizer_config.json", tmp_path / "special_tokens_map.json"
    if not listed:
        change_json(config, added_tokens_decoder=None)
    change_json(config, additional_special_tokens=["river"])
    flags = {**USER, "content": "sea", "lstrip": True}
    extra = {"additional_special_tokens": ["the"], "extra_special_tokens": ["is"]}
    change_json(token_map, mask_token=flags, **extra)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ours = load_tokenizer(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert (ours.mask_token, ours.mask_id) == (theirs.mask_token, theirs.mask_token_id)
    assert (ours.mask_token == "sea") == (not listed)
    text = "the river is a river, the sea  sea is wide"
    assert ours.encode(text).ids == theirs(text)["input_ids"]
    named = [str(warning.message) for warning in told if "mask_token is 'sea'" in str(warning)]
    assert len(named) == (not listed)
    assert all(str(token_map) in each and config.name in each for each in named)


@pytest.mark.parametrize(("make", "settings"), VARIANTS)
def test_saved_folders_mean_the_same_to_everyone(make, settings, tmp_path):
    saved = make(**settings, model_max_length=77)
    saved.save(tmp_path)
    loaded, theirs = load_tokenizer(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    for copy in (loaded, pickle.loads(pickle.dumps(saved))):
        assert copy.settings() == saved.settings()
        assert copy.fingerprint == saved.fingerprint
        assert copy.encode("the <mask> [MASK]") == saved.encode("the <mask> [MASK]")
    assert (theirs.model_max_length, len(theirs)) == (77, saved.vocab_size)
    assert (theirs.mask_token_id, theirs.pad_token_id) == (saved.mask_id, saved.pad_id)
    for text in texts_to_try(40, seed=35):
        assert theirs(text)["input_ids"] == saved.encode(text).ids, ascii(text)
    if make is not tiny_unigram:  # of which transformers saves the steps that ALBERT has
        theirs.save_pretrained(tmp_path / "again")
        assert load_tokenizer(tmp_path / "again").fingerprint == saved.fingerprint
    if make is not tiny_wordpiece:
        theirs = AutoTokenizer.from_pretrained(tmp_path, add_prefix_space=True)
        words = ["The", "river", ",", "don't", "漢字", "a b", " sea"]
        expected = theirs(words, is_split_into_words=True, add_special_tokens=False)
        ids, counts = saved.encode_word_ids(words)
        assert ids.tolist() == expected["input_ids"]
        places = [place for place, count in enumerate(counts.tolist()) for _ in range(count)]
        assert places == expected.word_ids()


@pytest.mark.parametrize("kind", TINY)
def test_added_tokens_are_found_in_text_as_in_the_library(kind):
    more = [AddedToken("[E1]", rstrip=True), AddedToken("Sea", normalized=True, special=False)]
    ours = TINY[kind](added_tokens=[*TINY[kind]().added_tokens, *more])
    for text in ("the sea [E1] is [MASK] <mask> wide", "SEA", " seasea[E1]  sea [CLS] Sea"):
        assert_same(ours, library_of(ours), text)


@pytest.mark.parametrize(
    ("kind", "inner", "first"),
    [
        ("wordpiece", ["##a", "##s"], ["the", ",", "漢", "[CLS]", "[UNK]"]),
        ("byte-bpe", ["e", "a", "Ã"], ["Ġthe", "Ġ", ",", "'", "Ċ", "<s>", "<mask>", "<pad>"]),
        ("unigram", ["er", "a"], ["▁the", "▁", ",", "漢", "[CLS]", "<unk>"]),
    ],
)
def test_tokens_say_whether_they_continue_a_word(kind, inner, first):
    tokenizer = TINY[kind]()
    continues = dict(zip(tokenizer.vocab, tokenizer.continues_word.tolist(), strict=True))
    assert all(continues[token] for token in inner)
    assert not any(continues[token] for token in first)


MAKE = {**TINY, "byte-bpe with a space": lambda: tiny_byte_bpe(add_prefix_space=True)}


@pytest.mark.parametrize("kind", MAKE)
def test_a_text_is_cut_as_the_words_that_it_is_said_to_have(kind):
    tokenizer = MAKE[kind]()
    for text in [*texts_to_try(200), "▁the ▁ ▁", "\ud800x"]:
        if not any(token.content.lower() in text.lower() for token in tokenizer.added_tokens):
            ids = [id_ for word in tokenizer.words(text) for id_ in tokenizer.word_ids(word)]
            assert ids == tokenizer.encode_ids(text), repr(text)


@pytest.mark.parametrize("kind", TINY)
def test_what_is_no_text_and_no_id_is_refused(kind):
    tokenizer = TINY[kind]()
    with refuses(InputError, "text: found float", "a string"):
        tokenizer.encode(float("nan"))
    with refuses(InputError, "pair: found list", "a string"):
        tokenizer.encode("the", ["the", "river"])
    for id_ in (-1, tokenizer.vocab_size):
        with refuses(InputError, f"token id {id_} ", f"0 to {tokenizer.vocab_size - 1}"):
            tokenizer.decode([5, id_])


@pytest.mark.parametrize(("kind", "part", "value", "parts"), [
    ("wordpiece", "model", {"type": "BPE", "vocab": {}}, ["byte-bpe", "vocab.txt", "wordpiece"]),
    ("wordpiece", "normalizer", {"type": "NFC"}, ["normalizer", "NFC", "BertNormalizer"]),
    ("wordpiece", "pre_tokenizer", {"type": "ByteLevel"}, ["ByteLevel", "BertPreTokenizer"]),
    ("wordpiece", "post_processor", {"type": "RobertaProcessing"}, ["RobertaProcessing", "[CLS]"]),
    ("byte-bpe", "pre_tokenizer", {"type": "Whitespace"}, ["pre_tokenizer", "Whitespace", "BPE"]),
    ("byte-bpe", "normalizer", {"type": "NFKC"}, ["normalizer", "BPE"]),
    ("byte-bpe", "post_processor", {"type": "ByteLevel"}, ["post_processor (ByteLevel)"]),
    ("byte-bpe", "model", {"type": "BPE", "vocab": {}, "dropout": 0.1}, ["dropout", "0.1", "null"]),
    ("unigram", "normalizer", {"type": "Sequence", "normalizers": [{"type": "NFC"}]}, ['"NFC"']),
    ("unigram", "pre_tokenizer", {"type": "Sequence", "pretokenizers": []}, ["pre_tokenizer", "▁"]),
    ("unigram", "model", {"type": "Unigram", "unk_id": 0, "vocab": [["a"]]}, ["piece 0", '["a"]']),
])  # fmt: skip
def test_other_tokenizers_are_refused_by_name(kind, part, value, parts, tmp_path):
    TINY[kind]().save(tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {part: value}))
    with refuses(CheckpointError, "tokenizer.json", *parts):
        load_tokenizer(tmp_path)


NAMES = ("cls_token", "sep_token", "pad_token", "unk_token", "mask_token")
USER = {"content": "<user>", "lstrip": False, "rstrip": True, "single_word": False,
        "normalized": False, "special": False}  # fmt: skip


UNLISTED = [
    (kind, named, listed)
    for kind in TINY
    for named in ("config", "map", "class", "plain class", "mask with flags")
    for listed in ("in both files", "in the config", "no tokenizer.json")
    # Ours of ALBERT is saved in tokenizer.json alone, and a plain class reads nothing else.
    if listed != "no tokenizer.json" or (kind != "unigram" and named != "plain class")
]


@pytest.mark.parametrize(("kind", "named", "listed"), UNLISTED)
def test_special_tokens_that_are_not_listed_are_kept_whole(kind, named, listed, tmp_path):
    saved_without_sums(kind, tmp_path)
    size = TINY[kind]().vocab_size
    config, tokens = tmp_path / "tokenizer_config.json", tmp_path / "tokenizer.json"
    names = {name: json.loads(config.read_text())[name] for name in NAMES}
    change_json(config, added_tokens_decoder={str(size): USER})
    if listed == "no tokenizer.json":
        tokens.unlink()
    else:
        change_json(tokens, added_tokens=[{"id": size, **USER}] if "both" in listed else [])
    if named in ("map", "class", "plain class"):
        change_json(config, **dict.fromkeys(NAMES))
    if named == "map":
        change_json(tmp_path / "special_tokens_map.json", **names)
    if named == "plain class":
        change_json(config, tokenizer_class="PreTrainedTokenizerFast")
    if named == "mask with flags":
        flags = {**USER, "content": names["mask_token"], "lstrip": True, "special": True}
        change_json(config, mask_token={"__type": "AddedToken", **flags})
    ours, theirs = load_tokenizer(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    text = "the {mask_token} runs {cls_token} to <user> the{mask_token}sea {pad_token}{sep_token}."
    ids = ours.encode(text.format_map(names)).ids
    assert ids == theirs(text.format_map(names))["input_ids"]
    assert (ids.count(ours.mask_id) == 2) == (named != "plain class")
    assert ids.count(size) == 1 and ours.token_to_id("<user>") == size
    ours.save(tmp_path / "again")
    for read in (load_tokenizer, AutoTokenizer.from_pretrained):
        assert read(tmp_path / "again")(text.format_map(names))["input_ids"] == ids


@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json"])
@pytest.mark.parametrize("kind", TINY)
def test_flags_of_special_tokens_in_the_config_are_kept(kind, file, tmp_path):
    """transformers before 4.34 did not list special tokens; the config has their flags."""
    saved_without_sums(kind, tmp_path, only_own_files=True)
    config = tmp_path / "tokenizer_config.json"
    names = {name: json.loads(config.read_text())[name] for name in NAMES}
    flags = {"lstrip": False, "rstrip": True, "single_word": False, "normalized": True}
    tokens = {name: {**flags, "content": names[name]} for name in ("mask_token", "pad_token")}
    if file == "tokenizer_config.json":
        tokens = {name: {"__type": "AddedToken", **token} for name, token in tokens.items()}
    change_json(config, added_tokens_decoder=None, **dict.fromkeys(NAMES))
    change_json(tmp_path / file, **tokens)
    ours = load_tokenizer(tmp_path)
    flagged = {token.content for token in ours.added_tokens if token.rstrip and not token.lstrip}
    assert flagged == {names["mask_token"], names["pad_token"]}
    if kind != "unigram":  # which needs sentencepiece
        theirs = AutoTokenizer.from_pretrained(tmp_path)
        text = "the {mask_token} runs {pad_token} to the{pad_token}sea".format_map(names)
        for cased in (text, text.lower()):
            assert ours.encode(cased).ids == theirs(cased)["input_ids"]


def test_of_a_vocabulary_without_a_special_token_none_is_added(tmp_path):
    saved_without_sums("wordpiece", tmp_path, only_own_files=True)
    pieces = (tmp_path / "vocab.txt").read_text().replace("[MASK]\n", "odd\n")
    (tmp_path / "vocab.txt").write_text(pieces)
    size = pieces.count("\n")
    change_json(tmp_path / "tokenizer_config.json", added_tokens_decoder={str(size): USER})
    with refuses(CheckpointError, "vocab.txt: ", "[MASK]"):
        load_tokenizer(tmp_path)

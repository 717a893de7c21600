"""Further pieces for a vocabulary: what is learned, what stays, how new ones were cut before."""

import json
import re
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from tiny_tokenizers import TINY, tiny_byte_bpe, tiny_unigram, tiny_wordpiece
from tokenizers import models

from bertsmith.errors import ConfigError
from bertsmith.pretraining.from_model import first_difference
from bertsmith.system.files import write_json
from bertsmith.tokenization.byte_bpe import BYTE_CHARACTERS, ByteBpeTokenizer
from bertsmith.tokenization.unigram import UnigramTokenizer
from bertsmith.vocabulary.byte_bpe import extend_byte_bpe
from bertsmith.vocabulary.extend import extend_tokenizer
from bertsmith.vocabulary.origin import model_of_tokenizer, note_origin
from bertsmith.vocabulary.replaced_ids import replaced_ids
from bertsmith.vocabulary.settings import ExtensionSettings
from bertsmith.vocabulary.unigram_extension import extend_unigram
from bertsmith.vocabulary.wordpiece import SPECIAL_TOKENS, learn_wordpiece
from bertsmith.vocabulary.wordpiece_extension import learn_extension

UNK_ID = SPECIAL_TOKENS.index("[UNK]")
WEIGHT_FILES = [
    "model.safetensors", "model.safetensors.index.json",
    "pytorch_model.bin", "pytorch_model.bin.index.json",
]  # fmt: skip
GENERAL = Counter({"the": 9, "cat": 4, "sat": 3, "on": 5, "a": 7, "mat": 2, "ten": 1, "rose": 1})
words = st.text("abc", min_size=1, max_size=7)
corpora = st.dictionaries(words, st.integers(1, 9), min_size=1, max_size=12)


def cut(vocab: Sequence[str], word: str) -> list[str]:
    """The pieces of a word by the `tokenizers` library."""
    ids = {token: index for index, token in enumerate(vocab)}
    return [token.value for token in models.WordPiece(ids, unk_token="[UNK]").tokenize(word)]


@settings(max_examples=30)
@given(corpora, corpora, st.integers(20, 40))
def test_fewer_pieces_whatever_the_texts(general, domain, num_new):
    """What was known stays known, and words without new pieces are cut as before."""
    vocab = learn_wordpiece(general, 24, character_coverage=1.0).tokens
    added = learn_extension(vocab, UNK_ID, domain, num_new, character_coverage=1.0)
    extended = [*vocab, *added]
    assert len(added) <= num_new
    assert len(set(extended)) == len(extended)
    assert all(cut(extended, word) != ["[UNK]"] for word in domain)
    for word in {*general, *domain}:
        pieces = cut(extended, word)
        assert pieces == cut(vocab, word) or set(pieces) & set(added)


GENERAL_WORDS = ["The", " river", " runs", " down", " to", " the", " sea", "!", " 漢字"]
NEW_WORDS = {" zebrafish": 9, " zebra": 7, " fishery": 5, "Zürich": 3, " the": 2}


def test_byte_level_bpe_goes_on_where_its_merges_stand():
    old = tiny_byte_bpe()
    new = extend_byte_bpe(old, NEW_WORDS, 13)
    assert new.vocab[: old.vocab_size] == old.vocab and new.vocab_size == old.vocab_size + 13
    assert new.merges[: len(old.merges)] == old.merges
    for word in GENERAL_WORDS:
        assert new.encode_ids(word) == old.encode_ids(word)
    assert len(new.encode_ids(" zebra")) < len(old.encode_ids(" zebra"))
    assert first_difference(old, new) is None
    before = list(replaced_ids(old, new.vocab[old.vocab_size :]))
    for piece, ids in zip(new.vocab[old.vocab_size :], before, strict=True):
        assert "".join(old.vocab[id_] for id_ in ids) == piece
        assert len(ids) > 1


NEW_UNIGRAM_WORDS = {word.lower().replace(" ", "▁"): n for word, n in NEW_WORDS.items()}
NEW_UNIGRAM_WORDS |= {"▁zürich": 3, "▁19,": 8}


def test_a_merge_that_is_there_already_keeps_its_place():
    """ "abb" is made anew, by "a" and "bb"; the old merge of "abb" and "c" must not come last."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    merges = [("b", "b"), ("a", "b"), ("ab", "b"), ("abb", "c")]
    old = ByteBpeTokenizer([*special, *sorted(BYTE_CHARACTERS), *map("".join, merges)], merges)
    assert len(old.encode_ids("abbc")) == 3
    new = extend_byte_bpe(old, {"abbc": 5}, 3)
    assert new.merges == (*old.merges, ("a", "bb"))
    assert new.encode_ids("abbc") == [old.token_to_id("abbc")]


def test_a_unigram_model_gets_likelier_pieces():
    old = tiny_unigram()
    new = extend_unigram(old, NEW_UNIGRAM_WORDS, 30)
    added = new.vocab[old.vocab_size :]
    assert new.vocab[: old.vocab_size] == old.vocab
    assert 0 < len(added) <= 30 and len(new.scores) == new.vocab_size
    assert new.scores[: old.num_pieces] == old.scores and min(new.scores) == min(old.scores)
    assert not any(re.search(r"\d,$", piece) for piece in added)
    assert "▁zebra" in added
    for word in GENERAL_WORDS:
        assert new.encode_ids(word) == old.encode_ids(word)
    for text in ("zebra", "zebrafish", "fishery"):
        assert len(new.encode_ids(text)) < len(old.encode_ids(text))
    assert first_difference(old, new) is None
    for piece, ids in zip(added, replaced_ids(old, added), strict=True):
        if ids:
            assert "".join(old.vocab[id_] for id_ in ids) == piece


def test_characters_that_the_vocabulary_lacks_come_first():
    vocab = learn_wordpiece(GENERAL, 45).tokens
    added = learn_extension(vocab, UNK_ID, {"λx": 4, "the": 2}, 10, character_coverage=1.0)
    assert {"x", "λ", "##λ", "##x"} == set(added[:4])
    assert cut([*vocab, *added], "λx") != ["[UNK]"]
    counts = {"the": 10_000, "λ": 1}
    assert "λ" not in learn_extension(vocab, UNK_ID, counts, 10, character_coverage=0.99)
    with refuses(ConfigError, "--add:", "found 2", "4 new tokens", "--character-coverage (1.0)"):
        learn_extension(vocab, UNK_ID, {"λx": 4, "the": 2}, 2, character_coverage=1.0)
    with refuses(ConfigError, "does not know", "--character-coverage 1.0"):
        extend_unigram(tiny_unigram(), {"▁<unk>": 3}, 5, character_coverage=1.0)
    with refuses(ConfigError, "--add:", "found 1", "2 new tokens"):
        extend_unigram(tiny_unigram(), {"▁龘龍": 3}, 1)


def test_byte_level_bpe_knows_every_character(tmp_path):
    tiny_byte_bpe().save(tmp_path)
    settings = ExtensionSettings(from_=tmp_path, texts=("absent.txt",), character_coverage=0.9)
    with refuses(ConfigError, "--character-coverage 0.9", f"{tmp_path} is byte-level BPE"):
        extend_tokenizer(settings)


def test_other_rules_or_scores_are_no_extension():
    bpe, unigram = tiny_byte_bpe(), tiny_unigram()
    pieces, scores = unigram.vocab[: unigram.num_pieces], unigram.scores

    def bpe_of(merges=bpe.merges, **settings):
        return ByteBpeTokenizer(bpe.vocab, merges, **{**bpe.settings(), **settings})

    def unigram_of(pieces, scores):
        return UnigramTokenizer(pieces, scores, **unigram.settings())

    for old, new, words in (
        (bpe, bpe_of([*bpe.merges[1:], bpe.merges[0]]), "merge 1 no longer joins"),
        (bpe, bpe_of(add_prefix_space=True), "add_prefix_space is True"),
        (bpe, tiny_wordpiece(), "it is of another kind"),
        (unigram, unigram_of(pieces, [*scores[:-1], scores[-1] - 0.25]), "the score of id"),
        (unigram, unigram_of([*pieces, "zzz"], [*scores, min(scores) - 1]), "the least score is"),
    ):
        assert words in first_difference(old, new)


@pytest.mark.parametrize("weights", WEIGHT_FILES)
def test_the_model_of_an_extension_may_have_its_weights_in_any_file(tmp_path, weights):
    tokenizer, model = tmp_path / "tokens", tmp_path / "model"
    tokenizer.mkdir()
    model.mkdir()
    note_origin(tokenizer, model)
    (model / "config.json").touch()
    assert model_of_tokenizer(tokenizer) is None
    (model / weights).touch()
    found = model_of_tokenizer(tokenizer)
    assert found is not None and found.samefile(model)


def test_a_model_whose_inner_folder_is_missing_is_not_named(tmp_path):
    """And it is no error: the tokenizer alone is enough for a corpus."""
    tokenizer, model = tmp_path / "tokens", tmp_path / "model"
    tokenizer.mkdir()
    model.mkdir()
    note_origin(tokenizer, model)
    write_json(model / "modules.json", [{"path": "0_Transformer", "type": "models.Transformer"}])
    assert model_of_tokenizer(tokenizer) is None


@pytest.mark.parametrize(
    ("kind", "word"), [("wordpiece", "zebra"), ("byte-bpe", "▁中国"), ("unigram", "▁zebra")]
)
def test_added_tokens_are_shown_as_people_read_them(tmp_path, kind, word):
    TINY[kind]().save(tmp_path / "old")
    text = tmp_path / "text.txt"
    text.write_text("A zebra, 中国, zebras. 中国 zebra.\n" * 9, encoding="utf-8")
    _, report = extend_tokenizer(
        ExtensionSettings(from_=tmp_path / "old", texts=(text,), add=24, held_out_share=0.0)
    )
    assert word in report.shown and len(report.shown) == len(report.added)
    assert (report.shown == report.added) == (kind != "byte-bpe")


def test_line_breaks_that_were_added_do_not_break_the_line_of_a_report(tmp_path):
    tiny_byte_bpe().save(tmp_path / "old")
    document = json.dumps({"text": "x\n\t\ty\n\t\tz"})
    (tmp_path / "code.jsonl").write_text(f"{document}\n" * 9, encoding="utf-8")
    texts = (tmp_path / "code.jsonl",)
    _, report = extend_tokenizer(
        ExtensionSettings(from_=tmp_path / "old", texts=texts, add=1, held_out_share=0.0)
    )
    assert report.added == ("Ċĉ",) and report.shown == ("\\n\\t",)

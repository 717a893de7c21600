"""SentencePiece's unigram models equal the `tokenizers` library, from either kind of file."""

import json
import random
import re
import warnings

import pytest
import transformers
from library_tokenizers import (
    assert_same,
    assert_same_batch,
    library_of,
    texts_to_try,
)
from tiny_tokenizers import tiny_unigram
from tokenizers import normalizers

from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.charsmap import CharacterMap
from bertsmith.tokenization.sentencepiece_model import read_sentencepiece
from bertsmith.tokenization.unigram import UnigramTokenizer
from bertsmith.tokenization.unigram_normalizer import ALBERT_STEPS
from bertsmith.vocabulary.library_training import learn_unigram


@pytest.fixture(scope="module")
def t5_file(data_dir):
    return data_dir / "vocabs" / "t5" / "spiece.model"


@pytest.fixture(scope="module")
def t5(t5_file):
    """T5's pieces as they are, with the table of its normalization alone."""
    model = read_sentencepiece(t5_file.read_bytes(), t5_file)
    return UnigramTokenizer(
        model.pieces, model.scores, steps=("charsmap",), charsmap=model.charsmap
    )


@pytest.mark.parametrize("steps", [("charsmap",), ALBERT_STEPS])
def test_the_pieces_of_t5_agree_on_random_strings_and_real_lines(steps, t5, data_dir):
    ours = UnigramTokenizer(t5.vocab[: t5.num_pieces], t5.scores, steps=steps, charsmap=t5.charsmap)
    library, charsmap = library_of(ours), CharacterMap(t5.charsmap)
    compared = 0
    for text in texts_to_try(100):
        if any(charsmap.image(char) == "" for char in text):
            # What is removed at the start, the library's offsets do not survive.
            assert ours.encode(text).ids == library.encode(text).ids, ascii(text)
        else:
            assert_same(ours, library, text)
            compared += 1
    assert compared > 80
    text = "\x01\x02river\x03 run"
    found = ours.encode(text)
    places = dict(zip(found.tokens, found.offsets, strict=True))
    assert [text[slice(*places[f"▁{word}"])] for word in ("river", "run")] == ["river", "run"]
    for corpus in ("enwiki", "zhwiki"):
        text = (data_dir / corpus / "small.txt").read_text(encoding="utf-8")[:20_000]
        assert_same_batch(ours, library, text.split("\n"))


def test_every_character_is_normalized_as_in_the_library(t5):
    ours, theirs = CharacterMap(t5.charsmap), normalizers.Precompiled(t5.charsmap)
    for first in (0, 0x2000, 0x3000, 0xA000, 0xE000, 0xF900, 0x1D000, 0x1F000, 0x2F800):
        text = "".join(f"a{chr(code)}\u0301" for code in range(first, first + 0x1000))
        text = text.encode("utf-8", "ignore").decode()
        assert ours.align(text)[0] == theirs.normalize_str(text), hex(first)


def test_a_sentencepiece_file_is_read_as_alberts(t5_file):
    tokenizer = load_tokenizer(t5_file)
    assert isinstance(tokenizer, UnigramTokenizer)
    assert tokenizer.vocab[:3] == ["<pad>", "</s>", "<unk>"]
    assert tokenizer.vocab[-3:] == ["[CLS]", "[SEP]", "[MASK]"]
    assert tokenizer.steps == ALBERT_STEPS
    assert tokenizer.encode("The café").tokens == tokenizer.encode("the cafe").tokens
    numbers = [token for token in tokenizer.encode("9, 10, 1,000").tokens if "," in token]
    assert not any(token[-1] == "," and token[-2:-1].isdigit() for token in numbers)


@pytest.mark.parametrize("config", [
    {"do_lower_case": False}, {"keep_accents": True}, {}, {"do_lower_case": None},
    {"do_lower_case": True, "keep_accents": False},
])  # fmt: skip
@pytest.mark.parametrize("steps", [
    ALBERT_STEPS, ("quotes", "lowercase"), ("quotes", "decompose", "strip_accents"), ("lowercase",),
])  # fmt: skip
@pytest.mark.parametrize("named", ["AlbertTokenizer", "PreTrainedTokenizerFast"])
def test_case_and_accents_in_the_config_are_followed_as_by_transformers(
    config, steps, named, tmp_path
):
    tiny_unigram(steps=steps).save(tmp_path)
    (tmp_path / "SHA256SUMS").unlink()
    path = tmp_path / "tokenizer_config.json"
    stored = json.loads(path.read_text())
    for key in ("do_lower_case", "keep_accents"):
        del stored[key]
    config = {key: value for key, value in config.items() if value is not None}
    path.write_text(json.dumps({**stored, "tokenizer_class": named, **config}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = load_tokenizer(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    text = "The café, THE SEA"
    assert tokenizer.encode(text).ids == theirs(text)["input_ids"]


def test_clauses_without_spaces_are_learnt_from():
    rng = random.Random(0)
    words = ["北京", "大学", "学习", "语言", "我们", "今天"]
    counts = {"▁" + "".join(rng.choices(words, k=90)): 1 for _ in range(60)}
    assert min(map(len, counts)) > 100
    learned = learn_unigram({**counts, "▁" + "龘" + "北京" * 60: 1}, 40)
    pieces = [token.lstrip("▁") for token in learned.tokens[5:]]
    of_words = re.compile(f"({'|'.join(words)})+")
    assert sum(of_words.fullmatch(piece) is not None for piece in pieces) > 20
    assert list(learned.dropped_characters) == ["龘"] and learned.skipped_words == 1


def test_a_special_token_in_the_text_is_learnt_once():
    counts = {"▁(<unk>)": 50, "▁<unk>.": 50, "▁hello<pad><pad>": 50, "▁hello": 90, "▁of": 70}
    learned = learn_unigram(counts, 40)
    assert len(set(learned.tokens)) == len(learned.tokens) == len(learned.scores)
    assert learned.tokens[:2] == ["<pad>", "<unk>"]
    UnigramTokenizer(learned.tokens, learned.scores)

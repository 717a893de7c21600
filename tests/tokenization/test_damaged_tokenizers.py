"""Damage in a file of a tokenizer is one clear error."""

import json
import math

import pytest
from library_tokenizers import SENTENCEPIECES, sentencepiece_file
from tiny_tokenizers import TINY

from bertsmith.errors import CheckpointError
from bertsmith.tokenization.auto import load_tokenizer

INTACT = sentencepiece_file(SENTENCEPIECES)
TWICE = sentencepiece_file([*SENTENCEPIECES, SENTENCEPIECES[-1]])


@pytest.mark.parametrize(("kind", "name", "content", "message"), [  # "+": behind what is there
    ("wordpiece", "vocab.txt", b"", "empty"),
    ("wordpiece", "vocab.txt", b"[UNK]\n[CLS]\n[SEP]\n[MASK]\na", r"lacks \[PAD\]"),
    ("wordpiece", "vocab.txt", b"+the", "'the' twice"),
    ("wordpiece", "vocab.txt", b"+ab\xff", r"vocab\.txt:\d+: .*not UTF-8"),
    ("wordpiece", "vocab.txt", None, r"has neither tokenizer\.json nor vocab\.txt"),
    ("byte-bpe", "merges.txt", b"#version: 0.2\nt h\nx\n", r"merges\.txt:3: found 'x'"),
    ("byte-bpe", "merges.txt", "Ġ t\nqqq z\n".encode(), r"merges\.txt: cut off, or of another v"),
    ("byte-bpe", "vocab.json", b'{"a": 0}', "lacks 255 of the 256 bytes"),
    ("byte-bpe", "vocab.json", b'{"a": 0, "b": 0}', "Ids must run from 0"),
    ("byte-bpe", "vocab.json", b'{"a": ', "not valid JSON"),
    ("byte-bpe", "vocab.json", None, "vocab.json: missing"),
    ("unigram", "spiece.model", b"", "holds no pieces"),
    ("unigram", "spiece.model", INTACT[:-3], "damaged"),
    ("unigram", "spiece.model", sentencepiece_file(SENTENCEPIECES, 2), "of the kind BPE"),
    ("unigram", "spiece.model", TWICE, "'▁' twice"),
])  # fmt: skip
def test_damage_is_named(kind, name, content, message, tmp_path):
    TINY[kind]().save(tmp_path)
    for newer in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / newer).unlink()
    path = tmp_path / name
    if content is None:
        path.unlink()
    elif content.startswith(b"+"):
        path.write_bytes(path.read_bytes() + content[1:])
    else:
        path.write_bytes(content)
    with pytest.raises(CheckpointError, match=message) as caught:
        load_tokenizer(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_lengths_and_numbers_that_are_none(tmp_path):
    TINY["wordpiece"]().save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    intact = json.loads(path.read_text())
    for length in (2, math.nan):
        path.write_text(json.dumps({**intact, "model_max_length": length}))
        with pytest.raises(CheckpointError, match=r"config\.json: 'model_max_length' is .*3 or"):
            load_tokenizer(tmp_path)
    for length in (512, int(1e30)):  # the latter is how transformers writes that there is none
        path.write_text(json.dumps({**intact, "model_max_length": length}))
        assert load_tokenizer(tmp_path).model_max_length == length
    path.write_text(json.dumps({**intact, "truncation_side": "left"}))
    with pytest.raises(CheckpointError, match="truncation_side is 'left'; texts are cut at their"):
        load_tokenizer(tmp_path)


def test_a_tokenizer_json_that_is_cut_off(tmp_path):
    TINY["wordpiece"]().save(tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CheckpointError, match="not valid JSON"):
        load_tokenizer(tmp_path)

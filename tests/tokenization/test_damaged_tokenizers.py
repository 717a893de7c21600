"""Damage in a file of a tokenizer is one clear error."""

import json
import math

import pytest
from library_tokenizers import SENTENCEPIECES, sentencepiece_file
from refusals import refuses
from tiny_tokenizers import TINY

from bertsmith.errors import CheckpointError
from bertsmith.tokenization.auto import load_tokenizer

INTACT = sentencepiece_file(SENTENCEPIECES)
TWICE = sentencepiece_file([*SENTENCEPIECES, SENTENCEPIECES[-1]])


@pytest.mark.parametrize(("kind", "name", "content", "parts"), [  # "+": behind what is there
    ("wordpiece", "vocab.txt", b"", ["vocab.txt:"]),
    ("wordpiece", "vocab.txt", b"[UNK]\n[CLS]\n[SEP]\n[MASK]\na", ["vocab.txt:", "lacks [PAD]"]),
    ("wordpiece", "vocab.txt", b"+the", ["vocab.txt:", "'the'", "115 and 116"]),
    ("wordpiece", "vocab.txt", b"+ab\xff", ["vocab.txt:117:", "byte 390", "UTF-8"]),
    ("wordpiece", "vocab.txt", None, ["tokenizer.json", "vocab.txt", "merges.txt with vocab.json"]),
    ("byte-bpe", "merges.txt", b"#version: 0.2\nt h\nx\n", ["merges.txt:3:", "found 'x'"]),
    ("byte-bpe", "merges.txt", "Ġ t\nqqq z\n".encode(), ["merges.txt:", "2 merges", "'Ġand'"]),
    ("byte-bpe", "vocab.json", b'{"a": 0}', ["vocab.json:", "255 of the 256 bytes", "0x00"]),
    ("byte-bpe", "vocab.json", b'{"a": 0, "b": 0}', ["vocab.json:", "id 1", "'b' with id 0"]),
    ("byte-bpe", "vocab.json", b'{"a": ', ["vocab.json:", "not valid JSON"]),
    ("byte-bpe", "vocab.json", None, ["vocab.json:", "merges.txt"]),
    ("unigram", "spiece.model", b"", ["spiece.model:"]),
    ("unigram", "spiece.model", INTACT[:-3], ["spiece.model:", "10 bytes", "byte 153 of 160"]),
    ("unigram", "spiece.model", sentencepiece_file(SENTENCEPIECES, 2), ["BPE", "unigram"]),
    ("unigram", "spiece.model", TWICE, ["spiece.model:", "'▁'", "9 and 10"]),
])  # fmt: skip
def test_damage_is_named(kind, name, content, parts, tmp_path):
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
    with refuses(CheckpointError, str(tmp_path), *parts, worded="JSON" not in str(parts)) as caught:
        load_tokenizer(tmp_path)
    assert "\n" not in str(caught.value)


def test_lengths_and_numbers_that_are_none(tmp_path):
    TINY["wordpiece"]().save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    intact = json.loads(path.read_text())
    for length, found in ((2, "2,"), (math.nan, "NaN,")):
        path.write_text(json.dumps({**intact, "model_max_length": length}))
        with refuses(CheckpointError, f"{path}:", "'model_max_length'", found, "3 or more"):
            load_tokenizer(tmp_path)
    for length in (512, int(1e30)):  # the latter is how transformers writes that there is none
        path.write_text(json.dumps({**intact, "model_max_length": length}))
        assert load_tokenizer(tmp_path).model_max_length == length
    path.write_text(json.dumps({**intact, "truncation_side": "left"}))
    with refuses(CheckpointError, f"{path}:", "truncation_side", "'left'"):
        load_tokenizer(tmp_path)


def test_a_tokenizer_json_that_is_cut_off(tmp_path):
    TINY["wordpiece"]().save(tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_bytes(path.read_bytes()[:-20])
    with refuses(CheckpointError, "tokenizer.json: not valid JSON", worded=False):
        load_tokenizer(tmp_path)

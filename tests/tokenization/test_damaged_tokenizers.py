"""Damage in a file of a tokenizer is one clear error."""

import json
import math

import pytest
from damage import damages, odd_values
from library_tokenizers import SENTENCEPIECES, sentencepiece_file
from refusals import refuses
from tiny_tokenizers import TEXT, TINY, tiny_byte_bpe

from bertsmith.errors import CheckpointError
from bertsmith.tokenization.auto import load_tokenizer

INTACT = sentencepiece_file(SENTENCEPIECES)
TWICE = sentencepiece_file([*SENTENCEPIECES, SENTENCEPIECES[-1]])
NO_NUMBER = sentencepiece_file([*SENTENCEPIECES, ("a", math.nan, 1)])


@pytest.mark.parametrize(("kind", "name", "content", "parts"), [  # "+": behind what is there
    ("wordpiece", "vocab.txt", b"", ["vocab.txt:"]),
    ("wordpiece", "vocab.txt", b"[UNK]\n[CLS]\n[SEP]\n[MASK]\na", ["vocab.txt:", "lacks [PAD]"]),
    ("wordpiece", "vocab.txt", b"+the", ["vocab.txt:", "'the'", "115 and 116"]),
    ("wordpiece", "vocab.txt", b"+ab\xff", ["vocab.txt:117:", "byte 390", "UTF-8"]),
    ("wordpiece", "vocab.txt", None, ["tokenizer.json", "vocab.txt", "merges.txt with vocab.json"]),
    ("byte-bpe", "merges.txt", b"#version: 0.2\nt h\nx\n", ["merges.txt:3:", "found 'x'"]),
    ("byte-bpe", "merges.txt", "Ġ t\nqqq z\n".encode(), ["merges.txt:", "2 merges", "'Ġand'"]),
    ("byte-bpe", "vocab.json", b'{"a": 0}', ["vocab.json:", "255 of the 256 bytes", "0x00"]),
    ("byte-bpe", "vocab.json", b'{"a": 0, "b": 0}', ["vocab.json:", "'b' has id 0"]),
    ("byte-bpe", "vocab.json", b'{"a": ', ["vocab.json:", "not valid JSON"]),
    ("byte-bpe", "vocab.json", None, ["vocab.json:", "merges.txt"]),
    ("unigram", "spiece.model", b"", ["spiece.model:"]),
    ("unigram", "spiece.model", INTACT[:-3], ["spiece.model:", "10 bytes", "byte 153 of 160"]),
    ("unigram", "spiece.model", sentencepiece_file(SENTENCEPIECES, 2), ["BPE", "unigram"]),
    ("unigram", "spiece.model", TWICE, ["spiece.model:", "'▁'", "9 and 10"]),
    ("unigram", "spiece.model", NO_NUMBER, ["spiece.model:", "damaged", "score nan"]),
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


@pytest.mark.parametrize(("fields", "parts"), [
    ({"cls_token": ["a"]}, ["'cls_token'", '["a"]', "text or an object"]),
    ({"cls_token": {"content": ["a"]}}, ["'content'", '["a"]', "text"]),
    ({"added_tokens_decoder": {"0": {"content": {}}}}, ["'content'", "{}", "text"]),
])  # fmt: skip
def test_tokens_that_are_no_text(fields, parts, tmp_path):
    TINY["wordpiece"]().save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    with refuses(CheckpointError, f"{path}:", *parts):
        load_tokenizer(tmp_path)


def test_a_tokenizer_json_that_is_cut_off(tmp_path):
    TINY["wordpiece"]().save(tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_bytes(path.read_bytes()[:-20])
    with refuses(CheckpointError, "tokenizer.json: not valid JSON", worded=False):
        load_tokenizer(tmp_path)


def load_or_refusal(folder):
    """Encode by the tokenizer of a folder, or check that it is refused in one line."""
    try:
        tokenizer = load_tokenizer(folder)
    except CheckpointError as error:
        assert str(folder) in str(error) and "\n" not in str(error)
        return True
    ids = tokenizer.encode_ids(TEXT)
    assert min(ids) >= 0 and max(ids) < tokenizer.vocab_size
    return False


FILES = {  # those that are read where there is no tokenizer.json, too
    "wordpiece": ("tokenizer.json", "tokenizer_config.json", "vocab.txt"),
    "byte-bpe": ("tokenizer.json", "tokenizer_config.json", "merges.txt", "vocab.json"),
    "unigram": ("tokenizer.json", "tokenizer_config.json", "spiece.model"),
}


@pytest.mark.parametrize("kind", FILES)
def test_random_damage_is_refused_or_leaves_a_tokenizer(kind, tmp_path):
    TINY[kind]().save(tmp_path)
    (tmp_path / "spiece.model").write_bytes(INTACT) if kind == "unigram" else None
    for name in FILES[kind]:
        path = tmp_path / name
        content = path.read_bytes()
        refused = []
        for damaged in damages(content, 30):
            path.write_bytes(damaged)
            refused.append(load_or_refusal(tmp_path))
        if path.suffix == ".json":
            for fields in odd_values(json.loads(content), 60):
                path.write_text(json.dumps(fields))
                refused.append(load_or_refusal(tmp_path))
        assert sum(refused) > 5
        path.unlink() if name == "tokenizer.json" else path.write_bytes(content)


def test_a_folder_of_two_kinds_is_refused(tmp_path):
    tiny_byte_bpe().save(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "vocab.txt").write_text("[PAD]\n")
    with refuses(CheckpointError, f"{tmp_path}: ", "vocab.txt", "merges.txt"):
        load_tokenizer(tmp_path)

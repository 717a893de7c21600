"""Damage of any kind in any file of a tokenizer: a clear error, or none that matters."""

import json
import math
import random

import pytest
from library_tokenizers import SENTENCEPIECES, sentencepiece_file
from tiny_tokenizers import TINY

from bertsmith.errors import CheckpointError
from bertsmith.tokenization.auto import load_tokenizer

TEXT = "ab 9, [MASK] é"


def damaged_copies(value):
    """Copies of a JSON value with one part removed or replaced by something else."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    for key in keys[:8] + keys[-2:]:
        remaining = value.copy()
        del remaining[key]
        yield remaining
        for other in (None, True, 3, "x", [None], {"id": []}):
            replaced = value.copy()
            replaced[key] = other
            yield replaced
        if isinstance(value[key], dict | list) and value[key]:
            for part in damaged_copies(value[key]):
                replaced = value.copy()
                replaced[key] = part
                yield replaced


def is_refused(folder):
    """Whether the folder is not opened; anything but a clear error is raised on."""
    try:
        load_tokenizer(folder).encode(TEXT)
    except CheckpointError as error:
        assert str(folder) in str(error) and "\n" not in str(error)
        return True
    return False


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((kind, "tokenizer.json") for kind in TINY),
        ("wordpiece", "tokenizer_config.json"),
        ("byte-bpe", "tokenizer_config.json"),
    ],
)
def test_parts_of_json_that_are_missing_or_other(kind, name, tmp_path):
    TINY[kind]().save(tmp_path)
    path = tmp_path / name
    intact = json.loads(path.read_text(encoding="utf-8"))
    if name != "tokenizer.json":  # which is read instead
        (tmp_path / "tokenizer.json").unlink()
    refused = 0
    for copy in random.Random(27).sample(list(damaged_copies(intact)), 60):
        path.write_text(json.dumps(copy), encoding="utf-8")
        refused += is_refused(tmp_path)
    assert refused > 12
    path.write_text(json.dumps(intact)[:-20], encoding="utf-8")
    with pytest.raises(CheckpointError, match="not valid JSON"):
        load_tokenizer(tmp_path)


def save_older_files(kind, name, folder):
    """Save a tokenizer without its JSON files; gives the path of `name`."""
    TINY[kind]().save(folder)
    for newer in ("tokenizer.json", "tokenizer_config.json"):
        (folder / newer).unlink()
    if kind == "unigram":
        (folder / name).write_bytes(sentencepiece_file(SENTENCEPIECES))
    return folder / name


@pytest.mark.parametrize(
    ("kind", "name"), [("byte-bpe", "merges.txt"), ("unigram", "spiece.model")]
)
def test_bytes_that_are_other_or_cut_off(kind, name, tmp_path):
    path, rng, refused = save_older_files(kind, name, tmp_path), random.Random(42), 0
    intact = path.read_bytes()
    for _ in range(60):
        damaged = bytearray(intact)
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        if rng.random() < 0.2:
            del damaged[rng.randrange(len(damaged)) :]
        path.write_bytes(bytes(damaged))
        refused += is_refused(tmp_path)
    assert refused > 8


INTACT = sentencepiece_file(SENTENCEPIECES)
UNKNOWN_LESS = sentencepiece_file([SENTENCEPIECES[0], *SENTENCEPIECES[2:]])
TWICE = sentencepiece_file([*SENTENCEPIECES, SENTENCEPIECES[-1]])
BAD_TABLE = sentencepiece_file(SENTENCEPIECES, charsmap=b"\x40\0\0\0xy")


@pytest.mark.parametrize(("kind", "name", "content", "message"), [  # "+": behind what is there
    ("wordpiece", "vocab.txt", b"", "empty"),
    ("wordpiece", "vocab.txt", b"[UNK]\n[CLS]\n[SEP]\n[MASK]\na", r"lacks \[PAD\]"),
    ("wordpiece", "vocab.txt", b"+the", "'the' twice"),
    ("wordpiece", "vocab.txt", b"+ab\xff", r"vocab\.txt:\d+: .*not UTF-8"),
    ("wordpiece", "vocab.txt", None, r"has neither tokenizer\.json nor vocab\.txt"),
    ("byte-bpe", "merges.txt", b"#version: 0.2\nt h\nx\n", r"merges\.txt:3: found 'x'"),
    ("byte-bpe", "merges.txt", "Ġ t\nqqq z\n".encode(), r"merges\.txt: cut off, or of another v"),
    ("byte-bpe", "merges.txt", b"+qqq z\n", "joins 'qqq' and 'z', but the vocabulary lacks 'q"),
    ("byte-bpe", "vocab.json", b'{"a": 0}', "lacks 255 of the 256 bytes"),
    ("byte-bpe", "vocab.json", b'{"a": 0, "b": 0}', "Ids must run from 0"),
    ("byte-bpe", "vocab.json", b'{"a": ', "not valid JSON"),
    ("byte-bpe", "vocab.json", None, "vocab.json: missing"),
    ("unigram", "spiece.model", b"", "holds no pieces"),
    ("unigram", "spiece.model", INTACT[:-3], "damaged"),
    ("unigram", "spiece.model", b"\x0b" + INTACT, "wire type 3"),
    ("unigram", "spiece.model", sentencepiece_file(SENTENCEPIECES, 2), "of the kind BPE"),
    ("unigram", "spiece.model", UNKNOWN_LESS, "0 unknown pieces"),
    ("unigram", "spiece.model", TWICE, "'▁' twice"),
    ("unigram", "spiece.model", BAD_TABLE, "normalization table has 6 bytes"),
])  # fmt: skip
def test_damage_is_named(kind, name, content, message, tmp_path):
    path = save_older_files(kind, name, tmp_path)
    intact = path.read_bytes()
    path.unlink()
    if content is not None:
        added = content.removeprefix(b"+")
        path.write_bytes(content if added == content else intact + added)
    with pytest.raises(CheckpointError, match=message) as caught:
        load_tokenizer(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_lengths_and_numbers_that_are_none(tmp_path):
    TINY["wordpiece"]().save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    intact = json.loads(path.read_text())
    for length in (-1, 2, math.inf, math.nan):
        path.write_text(json.dumps({**intact, "model_max_length": length}))
        with pytest.raises(CheckpointError, match=r"config\.json: 'model_max_length' is .*3 or"):
            load_tokenizer(tmp_path)
    for length in (3, 512, 10**30, 1e30, 1000000000000000019884624838656):
        path.write_text(json.dumps({**intact, "model_max_length": length}))
        assert load_tokenizer(tmp_path).model_max_length == int(length)
    path.write_text(json.dumps({**intact, "truncation_side": "left"}))
    with pytest.raises(CheckpointError, match="truncation_side is 'left'; texts are cut at their"):
        load_tokenizer(tmp_path)
    path.write_text(json.dumps({**intact, "truncation_side": "right"}))
    path = tmp_path / "tokenizer.json"
    root = json.loads(path.read_text())
    for number in (-1, 0):
        root["model"]["max_input_chars_per_word"] = number
        path.write_text(json.dumps(root))
        with pytest.raises(CheckpointError, match=rf"chars_per_word' is {number}, and .*1 or"):
            load_tokenizer(tmp_path)

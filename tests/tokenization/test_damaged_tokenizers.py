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
    for copy in random.Random(27).sample(list(damaged_copies(intact)), 150):
        path.write_text(json.dumps(copy), encoding="utf-8")
        refused += is_refused(tmp_path)
    assert refused > 40
    path.write_text(json.dumps(intact)[:-20], encoding="utf-8")
    with pytest.raises(CheckpointError, match="not valid JSON"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("wordpiece", "vocab.txt"),
        ("byte-bpe", "vocab.json"),
        ("byte-bpe", "merges.txt"),
        ("unigram", "spiece.model"),
    ],
)
def test_bytes_that_are_other_or_cut_off(kind, name, tmp_path):
    TINY[kind]().save(tmp_path)
    for newer in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / newer).unlink()
    path, rng, refused = tmp_path / name, random.Random(42), 0
    if kind == "unigram":
        path.write_bytes(sentencepiece_file(SENTENCEPIECES))
    intact = path.read_bytes()
    for _ in range(120):
        damaged = bytearray(intact)
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        if rng.random() < 0.2:
            del damaged[rng.randrange(len(damaged)) :]
        path.write_bytes(bytes(damaged))
        refused += is_refused(tmp_path)
    assert refused > 20


@pytest.mark.parametrize("kind", TINY)
def test_lengths_and_numbers_that_are_none(kind, tmp_path):
    TINY[kind]().save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    intact = json.loads(path.read_text())
    for length in (-1, 0, 2, -math.inf, math.inf, math.nan):
        path.write_text(json.dumps({**intact, "model_max_length": length}))
        with pytest.raises(CheckpointError, match=r"config\.json: 'model_max_length' is .*3 or"):
            load_tokenizer(tmp_path)
    for length in (3, 512, 10**30, 1e30, 1000000000000000019884624838656):
        path.write_text(json.dumps({**intact, "model_max_length": length}))
        assert load_tokenizer(tmp_path).model_max_length == int(length)
    if kind == "wordpiece":
        path = tmp_path / "tokenizer.json"
        root = json.loads(path.read_text())
        for number in (-1, 0):
            root["model"]["max_input_chars_per_word"] = number
            path.write_text(json.dumps(root))
            said = rf"'max_input_chars_per_word' is {number}, and .*1 or"
            with pytest.raises(CheckpointError, match=said):
                load_tokenizer(tmp_path)

"""Sums of a folder's files: who writes them, what they find, and what is said of it."""

import contextlib
import json
import shutil
import subprocess
import warnings

import pytest
from samples import prepare
from tiny_models import save_tiny, save_tiny_of, tiny_tokenizer
from tiny_tokenizers import TINY

import bertsmith
from bertsmith.errors import BertsmithWarning, CheckpointError
from bertsmith.finetuning.run import finetune
from bertsmith.model.loading import load_model
from bertsmith.system.checksums import SUMMED_FILES, SUMS_FILE
from bertsmith.tokenization.auto import load_tokenizer


@pytest.fixture
def folder(tmp_path):
    return save_tiny(tmp_path / "model", "classify", labels=("neg", "pos"))


def check_whole(folder):
    """sha256sum finds all as it was written, and no file of SUMMED_FILES is left out."""
    done = subprocess.run(
        ["sha256sum", "-c", SUMS_FILE], cwd=folder, capture_output=True, text=True
    )
    there = {name for name in SUMMED_FILES if (folder / name).is_file()}
    assert done.returncode == 0
    assert {line.partition(":")[0] for line in done.stdout.splitlines()} == there
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_model(folder)
        load_tokenizer(folder)


def test_folders_have_sums(folder, tmp_path):
    check_whole(shutil.move(folder, tmp_path / "moved"))
    check_whole(save_tiny_of(tmp_path / "electra", "electra"))
    for kind, build in TINY.items():
        build().save(tmp_path / kind)
        files = {path.name for path in (tmp_path / kind).iterdir()} - {SUMS_FILE}
        assert set((tmp_path / kind / SUMS_FILE).read_text().split()[1::2]) == files


def test_lines_may_end_as_on_windows(folder):
    path = folder / SUMS_FILE
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_model(folder)


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", SUMS_FILE]
)
def test_a_flipped_bit_is_told_of_once(folder, name):
    intact = (folder / name).read_bytes()
    (folder / name).write_bytes(bytes([intact[0] ^ 1]) + intact[1:])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with contextlib.suppress(CheckpointError):
            bertsmith.load(folder)
    (found,) = (str(entry.message) for entry in told if SUMS_FILE in str(entry.message))
    assert str(folder) in found and "\n" not in found


def test_changes_by_hand_are_said_on_the_command_line(folder, typed):
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {"0": "no", "1": "yes"}
    del config["label2id"]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").unlink()
    printed = typed("predict", folder, "a film", "--json", "--device", "cpu", "--precision", "fp32")
    assert json.loads(printed.out)["predictions"][0]["label"] in ("no", "yes")
    (line,) = printed.err.splitlines()
    assert line.startswith(f"bertsmith: {folder}: config.json differs")
    assert "vocab.txt is missing" in line and "remove their lines" in line


def test_sums_follow_what_commands_write(tmp_path):
    check_whole(finetune(*prepare("classify", tmp_path, 12, 6, steps=1)).out)


def test_a_vocab_that_contradicts_its_tokenizer_json_is_told_of(tmp_path):
    tiny_tokenizer().save(tmp_path)
    (tmp_path / SUMS_FILE).unlink()
    lines = (tmp_path / "vocab.txt").read_text().splitlines()
    for changed, expected in (
        ([*lines[:6], "gooD", *lines[7:]], "id 6 is 'gooD', and 'fine'"),
        (lines[:-1], "is nothing, and '.'"),
    ):
        (tmp_path / "vocab.txt").write_text("".join(f"{line}\n" for line in changed))
        with pytest.warns(BertsmithWarning, match=f"{expected}.*tokenizer.json is used"):
            tokenizer = load_tokenizer(tmp_path)
        assert tokenizer.vocab == tiny_tokenizer().vocab

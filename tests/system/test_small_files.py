"""Small files of a folder: what is no regular file, and what is no file yet, is refused by name."""

import os
import socket
import stat

import pytest
from refusals import refuses
from tiny_models import reviews, save_tiny, write_csv
from tiny_tokenizers import TINY

from bertsmith.data.text_files import iter_lines
from bertsmith.distillation.cache_folder import open_cache
from bertsmith.errors import CheckpointError, InputError
from bertsmith.model.loading import load_model
from bertsmith.system.checksums import SUMS_FILE
from bertsmith.system.small_files import SmallFiles, read_small_file
from bertsmith.tasks.auto import load
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.training.run_folder import RunFolder

POINTER = (
    b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 + b"\nsize 440449768\n"
)


@pytest.fixture
def folder(tmp_path):
    folder = save_tiny(tmp_path / "m", "classify", labels=("neg", "pos"))
    (folder / SUMS_FILE).unlink()
    return folder


@pytest.mark.parametrize(
    "name",
    [
        SUMS_FILE,
        "config.json",
        "run.json",
        "modules.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "config_sentence_transformers.json",
    ],
)
def test_a_named_pipe_in_a_folder_is_refused_and_never_waited_for(name, tmp_path):
    folder = save_tiny(tmp_path / "m", "masked_lm")
    (folder / name).unlink(missing_ok=True)
    if name == "special_tokens_map.json":  # which is read only without the list of the config
        (folder / "tokenizer_config.json").write_text("{}")
        (folder / "SHA256SUMS").unlink()
    os.mkfifo(folder / name)
    with refuses(CheckpointError, str(folder / name), "a named pipe", worded=name == "config.json"):
        load(folder, device="cpu", precision="fp32").similarity("a", "b")


def test_a_byte_order_mark_is_no_damage_and_deep_nesting_is_named(tmp_path):
    (tmp_path / "a.json").write_text('{"é": 1}', encoding="utf-8-sig")
    assert SmallFiles(tmp_path).read_json("a.json") == {"é": 1}
    (tmp_path / "b.json").write_text(f'{{"a": {"[" * 100_000}{"]" * 100_000}}}')
    with refuses(CheckpointError, "b.json", "lists or objects too deep"):
        SmallFiles(tmp_path).read_json("b.json")


def test_sockets_and_devices_are_refused_and_folders_are_no_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("a")
        with refuses(CheckpointError, "a: ", "a socket"):
            read_small_file(tmp_path / "a")
    (tmp_path / "b").symlink_to(os.devnull)
    assert stat.S_ISCHR((tmp_path / "b").stat().st_mode)
    with refuses(CheckpointError, "b: ", "a device"):
        read_small_file(tmp_path / "b")
    (tmp_path / "c").mkdir()
    files = SmallFiles(tmp_path)
    assert [files.has(name) for name in ("a", "b", "c", "d")] == [True, True, False, False]
    with refuses(CheckpointError, "c: ", "a folder"):
        files.read_json("c")


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "config.json"])
def test_pointers_of_git_lfs_are_named_in_a_model(folder, name):
    if name == "pytorch_model.bin":
        (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(POINTER)
    with refuses(CheckpointError, str(folder / name), "Git LFS", "git lfs pull"):
        load_model(folder)


def test_pointers_of_git_lfs_are_not_called_damaged(tmp_path):
    for name, read in (
        ("run.json", lambda: RunFolder(tmp_path).read_run()),
        ("manifest.json", lambda: open_cache(tmp_path, {})),
    ):
        (tmp_path / name).write_bytes(POINTER)
        with refuses(CheckpointError, str(tmp_path / name), "git lfs pull") as refused:
            read()
        assert "damaged" not in str(refused.value)


def test_pointers_of_git_lfs_are_named_among_shards(folder):
    (folder / "model.safetensors").rename(folder / "a.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"x": "a.safetensors"}}')
    for name in ("a.safetensors", index.name):
        (folder / name).write_bytes(POINTER)
        with refuses(CheckpointError, str(folder / name), "git lfs pull"):
            load_model(folder)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("wordpiece", "tokenizer.json"),
        ("wordpiece", "vocab.txt"),
        ("byte-bpe", "vocab.json"),
        ("byte-bpe", "merges.txt"),
        ("unigram", "spiece.model"),
    ],
)
def test_pointers_of_git_lfs_are_named_in_a_tokenizer(kind, name, tmp_path):
    TINY[kind]().save(tmp_path)
    (tmp_path / SUMS_FILE).unlink()
    if name != "tokenizer.json":
        (tmp_path / "tokenizer.json").unlink()
    (tmp_path / name).write_bytes(POINTER)
    with refuses(CheckpointError, str(tmp_path / name), "git lfs pull"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("name", ["train.csv", "train.jsonl.xz", "train.txt.gz"])
def test_pointers_of_git_lfs_are_named_among_data(name, tmp_path):
    (tmp_path / name).write_bytes(POINTER)
    with refuses(InputError, name, "git lfs pull"):
        list(iter_lines(tmp_path / name))
    rows = [(example.text, example.label) for example in reviews(3)]
    assert list(iter_lines(write_csv(tmp_path / "b.csv", ("text", "label"), *rows)))
    (tmp_path / "c.txt").write_bytes(POINTER + b"A text about pointers. " * 99)
    assert len(list(iter_lines(tmp_path / "c.txt"))) == 4

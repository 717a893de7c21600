"""Models of the Hugging Face hub: fetched once by the real client, then read without a network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from folders import contents
from hub_server import Repository, serve_hub
from refusals import check_message
from tiny_tokenizers import tiny_wordpiece

from bertsmith.data.corpus import Corpus

FIND = """
import sys
from bertsmith.errors import CheckpointError
from bertsmith.model import hub
function, *names = sys.argv[1:]
for name in names:
    try:
        print(getattr(hub, function)(name))
    except CheckpointError as error:
        print(error)
"""
FILES = {"config.json": b"{}", "vocab.txt": b"[PAD]", "model.safetensors": bytes(1000)}
OLD_FILES = {
    "config.json": b"{}", "pytorch_model-1.bin": b"1", "pytorch_model.bin.index.json": b"{}",
}  # fmt: skip
UNUSED = {"pytorch_model.bin": b"the same weights", "flax_model.msgpack": b"1", "README.md": b"#"}


@pytest.fixture
def find(tmp_path):
    """Find models in a process of its own, as the client reads its variables when imported."""

    def find(hub, *names, function="find_checkpoint", **variables):
        done = subprocess.run(
            [sys.executable, "-c", FIND, function, *names],
            capture_output=True, text=True, timeout=600,
            env={**os.environ, **hub.variables(tmp_path / "home"), **variables},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return find


def test_a_model_is_fetched_once_in_one_form_and_found_without_a_network(find):
    with serve_hub() as hub:
        hub.repositories["anna/sentiment"] = Repository(private=True, files=FILES | UNUSED)
        (folder,) = find(hub, "anna/sentiment")
        assert Path(folder).is_dir(), folder
        assert contents(Path(folder)) == FILES
        assert sorted(hub.fetched) == sorted(FILES)
    for offline in ("1", ""):
        assert find(hub, "anna/sentiment", HF_HUB_OFFLINE=offline) == [folder]


def test_older_weights_are_fetched_and_what_the_hub_does_not_give_is_told(find):
    names = ("anna/old", "anna/none", "anna/secret", "anna/a--b")
    with serve_hub() as hub:
        hub.repositories["anna/old"] = Repository(files=OLD_FILES | {"README.md": b"#"})
        hub.repositories["anna/secret"] = Repository(private=True, files=FILES)
        folder, *refused = find(hub, *names, HF_TOKEN="")
        assert contents(Path(folder)) == OLD_FILES
    for name, line in zip(names[1:], refused, strict=True):
        check_message(line, f"{name}: ", "Hugging Face hub")


def test_the_files_of_a_folder_within_the_model_are_fetched(find):
    nested = {
        "modules.json": b'[{"type": "sentence_transformers.models.Transformer", "path": "0_T"}]'
    }
    nested |= {f"0_T/{name}": content for name, content in OLD_FILES.items()}
    nested["0_T/vocab.txt"] = b"[PAD]"
    with serve_hub() as hub:
        hub.repositories["anna/nested"] = Repository(files=nested)
        (folder,) = find(hub, "anna/nested")
    files = (path for path in Path(folder).rglob("*") if path.is_file())
    assert {path.relative_to(folder).as_posix(): path.read_bytes() for path in files} == nested


def test_a_corpus_is_built_with_the_tokenizer_of_a_model_of_the_hub(tmp_path):
    tiny_wordpiece().save(tmp_path / "model")
    (tmp_path / "text.txt").write_text("this is a text.\n\nthe other one.\n")
    files = FILES | OLD_FILES | UNUSED | contents(tmp_path / "model")
    with serve_hub() as hub:
        hub.repositories["anna/small"] = Repository(files=files)
        done = subprocess.run(
            [sys.executable, "-m", "bertsmith", "corpus", "build", "text.txt", "--tokenizer",
             "anna/small", "--out", "corpus", "--processes", "1"],
            capture_output=True, text=True, timeout=600, cwd=tmp_path,
            env={**os.environ, **hub.variables(tmp_path / "home")},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert Corpus.open(tmp_path / "corpus").tokenizer().vocab == tiny_wordpiece().vocab
    assert "--recipe continue --from anna/small " in done.stdout
    assert {Path(name).suffix for name in hub.fetched} == {".json", ".txt"}  # and no weights


@pytest.mark.parametrize("index", [{}, {"model.safetensors.index.json": b"{}"}])
def test_weights_that_only_the_hub_has_are_told_without_a_network(find, index):
    """The tokenizer was fetched before, as `corpus build` does."""
    with serve_hub() as hub:
        hub.repositories["anna/a"] = Repository(files=FILES | index)
        (folder,) = find(hub, "anna/a", function="find_tokenizer")
        assert set(contents(Path(folder))) == {"config.json", "vocab.txt", *index}
    for offline in ("1", ""):
        (told,) = find(hub, "anna/a", HF_HUB_OFFLINE=offline)
        check_message(told, "anna/a: ", "Check the spelling and the network")


def test_a_model_without_weights_is_found_where_the_hub_has_none(find):
    """Reading it then tells that there are no weights of a kind that bertsmith reads."""
    with serve_hub() as hub:
        hub.repositories["anna/flax"] = Repository(
            files={"config.json": b"{}", "flax.msgpack": b"1"}
        )
        (folder,) = find(hub, "anna/flax")
    assert set(contents(Path(folder))) == {"config.json"}


def test_a_connection_that_ends_too_early_is_told(find):
    with serve_hub() as hub:
        hub.repositories["anna/cut"] = Repository(files=FILES, is_cut=True)
        (told,) = find(hub, "anna/cut")
    check_message(told, "anna/cut: ", "Check the spelling and the network")

"""What the system refuses is told as that, with the file and the way out, never as damage."""

import contextlib
import ctypes
import itertools
import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tiny_models import save_model, save_tiny, tiny_model, tiny_tokenizer, write_reviews

from bertsmith.data.shards import Corpus
from bertsmith.data.text_files import iter_lines
from bertsmith.distillation.cache_folder import load_array, save_array
from bertsmith.errors import CheckpointError, CorpusError, InputError
from bertsmith.evaluation.errors_file import write_misses
from bertsmith.model.loading import load_model
from bertsmith.tasks.scoring import Outcome

PERMISSION = r"Permission denied\)?\. Change the permissions or choose another place\."
OPEN_FILES = r"Too many open files\)\. Allow more open files \(ulimit -n 4096\), then run"


def without_privileges(do):
    """Do it in a thread for which permissions hold, also where root runs the tests."""

    def drop_and_do():
        if os.geteuid() == 0:  # capabilities belong to threads
            version = (ctypes.c_uint32 * 2)(0x20080522, 0)
            none = (ctypes.c_uint32 * 6)()
            assert ctypes.CDLL(None).capset(version, none) == 0
        return do()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(drop_and_do).result()


@contextlib.contextmanager
def limited(kind, number):
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (number, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


@contextlib.contextmanager
def one_more_file():
    """Allow one file more than are open: of the number that the listing has, the lowest free."""
    taken = {int(file.name) for file in Path("/proc/self/fd").iterdir()}
    limit = next(number for number in itertools.count() if number not in taken)
    with limited(resource.RLIMIT_NOFILE, limit):
        yield


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's capabilities or /proc")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "model"
    save_model(tiny_model("masked_lm"), folder, tiny_tokenizer())
    return folder


@on_linux
def test_no_permission_to_read(model, corpus_dir, tmp_path):
    weights = tmp_path / "pytorch_model.bin"
    torch.save({"a": torch.zeros(3)}, weights)
    (tmp_path / "config.json").write_text((model / "config.json").read_text())
    cached = tmp_path / "cached"
    save_array(cached, tiny_model().embeddings.word.weight.detach().numpy())
    ids = next(corpus_dir.glob("train*.ids.npy"))
    cases = [
        (model / "model.safetensors", CheckpointError, lambda: load_model(model)),
        (weights, CheckpointError, lambda: load_model(tmp_path)),
        (corpus_dir / "manifest.json", CorpusError, lambda: Corpus.open(corpus_dir)),
        (ids, CorpusError, lambda: Corpus.open(corpus_dir, verify=False)),
        (cached, CheckpointError, lambda: load_array(cached)),
    ]
    for file, kind, do in cases:
        mode = file.stat().st_mode
        file.chmod(0)
        try:
            with pytest.raises(kind, match=rf"{file.name}: cannot be read \({PERMISSION}"):
                without_privileges(do)
        finally:
            file.chmod(mode)


@on_linux
def test_too_many_open_files(model, corpus_dir, tmp_path):
    load_model(model)  # what is imported on the way needs files too
    with one_more_file(), pytest.raises(CheckpointError, match=rf"cannot be read \({OPEN_FILES}"):
        load_model(model)
    with one_more_file(), pytest.raises(CorpusError, match=rf"cannot be read \({OPEN_FILES}"):
        Corpus.open(corpus_dir, verify=False)
    rows = write_reviews(tmp_path / "rows.csv", 8)
    with (
        limited(resource.RLIMIT_NOFILE, 0),
        pytest.raises(InputError, match=rf"rows\.csv: cannot be read \({OPEN_FILES}"),
    ):
        next(iter_lines(rows))


@on_linux
def test_a_folder_that_takes_no_file_and_a_disk_without_room(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)

    def write():
        with write_misses(folder / "misses.jsonl"):
            pass

    with pytest.raises(InputError, match=rf"misses\.jsonl: cannot be written \({PERMISSION}"):
        without_privileges(write)
    for length in (60_000, 300):
        with (
            pytest.raises(InputError, match=r"misses\.jsonl: cannot be written \(File too large\)"),
            limited(resource.RLIMIT_FSIZE, 100),
            write_misses(tmp_path / "misses.jsonl") as misses,
        ):
            misses.see([SimpleNamespace(row=1)], [Outcome("a" * length, "b", "c", 0.0)])
    assert list(tmp_path.iterdir()) == [folder]


def test_ascii_locales_read_and_write_all_characters(model, tmp_path):
    out = save_tiny(tmp_path / "modèle", "classify", labels=("größe", "电影"))
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"}
    ascii_only.pop("PYTHONIOENCODING", None)
    words = ["predict", str(out), "le café 电影", "--out", str(tmp_path / "erreurs-é.jsonl")]
    for given in (words[:3], words):
        done = subprocess.run(
            [sys.executable, "-m", "bertsmith", *given], env=ascii_only, capture_output=True,
            timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
        if given is not words:
            label, _, text = done.stdout.decode("utf-8").rstrip().split("\t")
            assert label in ("größe", "电影")
            assert text == "le café 电影"
    assert "le café 电影" in (tmp_path / "erreurs-é.jsonl").read_text("utf-8")

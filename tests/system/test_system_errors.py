"""What the system refuses is told as that, with the file and the way out, never as damage."""

import contextlib
import ctypes
import itertools
import json
import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from limits import file_size_limit, limited
from tiny_models import save_tiny, write_reviews
from tiny_runs import FP32

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
def one_more_file():
    """Allow one file more than are open: of the number that the listing has, the lowest free."""
    taken = {int(file.name) for file in Path("/proc/self/fd").iterdir()}
    limit = next(number for number in itertools.count() if number not in taken)
    with limited(resource.RLIMIT_NOFILE, limit):
        yield


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's capabilities or /proc")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("models") / "model", "masked_lm")


@on_linux
def test_no_permission_to_read(model, corpus_dir, tmp_path):
    torch.save({"a": torch.zeros(3)}, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text((model / "config.json").read_text())
    save_array(tmp_path / "cached", np.zeros((3, 2), np.float32))
    ids = next(corpus_dir.glob("train*.ids.npy"))
    for file, kind, do in (
        (model / "model.safetensors", CheckpointError, lambda: load_model(model)),
        (tmp_path / "pytorch_model.bin", CheckpointError, lambda: load_model(tmp_path)),
        (corpus_dir / "manifest.json", CorpusError, lambda: Corpus.open(corpus_dir)),
        (ids, CorpusError, lambda: Corpus.open(corpus_dir, verify=False)),
        (tmp_path / "cached", CheckpointError, lambda: load_array(tmp_path / "cached")),
    ):
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
    rows = write_reviews(tmp_path / "rows.csv", 8)
    for kind, limit, do in (
        (CheckpointError, one_more_file(), lambda: load_model(model)),
        (CorpusError, one_more_file(), lambda: Corpus.open(corpus_dir, verify=False)),
        (InputError, limited(resource.RLIMIT_NOFILE, 0), lambda: next(iter_lines(rows))),
    ):
        with limit, pytest.raises(kind, match=rf"cannot be read \({OPEN_FILES}"):
            do()


@on_linux
def test_a_folder_that_takes_no_file_and_a_disk_without_room(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)

    def write(path, text="a"):
        with write_misses(path) as misses:
            misses.see([SimpleNamespace(row=1)], [Outcome(text, "b", "c", 0.0)])

    with pytest.raises(InputError, match=rf"misses\.jsonl: cannot be written \({PERMISSION}"):
        without_privileges(lambda: write(folder / "misses.jsonl"))
    for length in (60_000, 300):
        with (
            pytest.raises(InputError, match=r"misses\.jsonl: cannot be written \(File too large\)"),
            file_size_limit(100),
        ):
            write(tmp_path / "misses.jsonl", "a" * length)
    assert list(tmp_path.iterdir()) == [folder]


def test_ascii_locales_read_and_write_all_characters(tmp_path):
    model = save_tiny(tmp_path / "modèle", "classify", labels=("größe", "电影"))
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"}
    ascii_only.pop("PYTHONIOENCODING", None)
    out = tmp_path / "erreurs-é.jsonl"
    for code, words in (
        (2, ["prédire"]),
        (0, ["predict", model, "le café 电影", "--out", out, *FP32]),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "bertsmith", *words], env=ascii_only, capture_output=True,
            timeout=120, check=False,
        )  # fmt: skip
        said = done.stderr.decode("utf-8")
        assert done.returncode == code, said
        assert code == 0 or "'prédire' is not a command" in said
    (row,) = map(json.loads, out.read_text("utf-8").splitlines())
    assert row["label"] in ("größe", "电影")
    assert "le café 电影" in row.values()

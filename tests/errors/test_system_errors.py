"""What the system refuses is told as that, with the file and the way out, never as damage."""

import ctypes
import errno
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from limits import file_size_limit, no_more_open_files
from refusals import refuses
from tiny_models import save_tiny, write_reviews
from tiny_runs import FP32

import bertsmith
from bertsmith.data.corpus import Corpus
from bertsmith.data.examples import ExampleReader
from bertsmith.distillation.cache_folder import load_array, save_array
from bertsmith.errors import CheckpointError, CorpusError, InputError
from bertsmith.errors.system_errors import SYSTEM_ADVICE
from bertsmith.evaluation.errors_file import write_misses
from bertsmith.model.loading import load_model
from bertsmith.model.weights import read_weights
from bertsmith.tasks.scoring import Outcome
from bertsmith.training.run_folder import RunFolder

PERMISSION = f"(Permission denied). {SYSTEM_ADVICE[errno.EACCES]}"


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


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's capabilities or /proc")


@on_linux
def test_no_permission_to_read(corpus_dir, tmp_path):
    model = save_tiny(tmp_path / "model", "masked_lm")
    torch.save({"a": torch.zeros(3)}, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text((model / "config.json").read_text())
    save_array(tmp_path / "cached", np.zeros((3, 2), np.float32))
    ids = next(corpus_dir.glob("train*.ids.npy"))
    run = RunFolder(tmp_path)
    run.write_run({})
    (tmp_path / "shards").mkdir()
    index = tmp_path / "shards" / "model.safetensors.index.json"
    index.write_text('{"weight_map": {}}')
    for file, kind, do in (
        *(
            (model / name, CheckpointError, lambda: bertsmith.load(model, task="fill"))
            for name in ("model.safetensors", "config.json", "tokenizer.json", "SHA256SUMS")
        ),
        (run.run_path, CheckpointError, run.read_run),
        (index, CheckpointError, lambda: read_weights(index.parent)),
        (tmp_path / "pytorch_model.bin", CheckpointError, lambda: load_model(tmp_path)),
        (corpus_dir / "manifest.json", CorpusError, lambda: Corpus.open(corpus_dir)),
        (ids, CorpusError, lambda: Corpus.open(corpus_dir, verify=False)),
        (tmp_path / "cached", CheckpointError, lambda: load_array(tmp_path / "cached")),
    ):
        mode = file.stat().st_mode
        file.chmod(0)
        try:
            with refuses(kind, f"{file.name}: ", PERMISSION, worded=False):
                without_privileges(do)
        finally:
            file.chmod(mode)


@on_linux
def test_a_folder_that_takes_no_file_and_a_disk_without_room(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)

    def write(path, text="a"):
        with write_misses(path) as misses:
            misses.add([SimpleNamespace(row=1)], [Outcome(text, "b", "c", 0.0)])

    with refuses(InputError, "misses.jsonl: ", PERMISSION, worded=False):
        without_privileges(lambda: write(folder / "misses.jsonl"))
    said = ("misses.jsonl: ", "(File too large)")
    with refuses(InputError, *said, worded=False), file_size_limit(100):
        write(tmp_path / "misses.jsonl", "a" * 60_000)
    assert list(tmp_path.iterdir()) == [folder]


@on_linux
def test_too_many_open_files(corpus_dir, tmp_path):
    model = save_tiny(tmp_path / "model", "masked_lm")
    load_model(model)  # what is imported on the way needs files too
    rows = write_reviews(tmp_path / "rows.csv", 8)
    advice = f"(Too many open files). {SYSTEM_ADVICE[errno.EMFILE]}"
    for kind, do in (
        (CheckpointError, lambda: load_model(model)),
        (CorpusError, lambda: Corpus.open(corpus_dir, verify=False)),
        (InputError, lambda: next(iter(ExampleReader(rows)))),
    ):
        with refuses(kind, advice, worded=False), no_more_open_files():
            do()


@pytest.mark.same_on_all_computers
def test_ascii_locales_read_and_write_all_characters(tmp_path):
    model = save_tiny(tmp_path / "modèle", "classify", labels=("größe", "电影"))
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"}
    ascii_only.pop("PYTHONIOENCODING", None)
    out = tmp_path / "erreurs-é.jsonl"
    words = ["predict", model, "le café 电影", "--out", out, *FP32]
    subprocess.run([sys.executable, "-m", "bertsmith", *words], env=ascii_only, check=True)
    (row,) = map(json.loads, out.read_text("utf-8").splitlines())
    assert row["label"] in ("größe", "电影")
    assert "le café 电影" in row.values()

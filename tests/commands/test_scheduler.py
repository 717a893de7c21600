"""`--scheduler`: a cluster of Dask writes the bytes of one process, though a worker is killed."""

import json

import pytest
from clusters import KillingExecutor, local_cluster
from folders import contents
from refusals import refuses
from tiny_tokenizers import tiny_wordpiece
from unit_texts import write_texts

from bertsmith.data import work_units
from bertsmith.data.corpus_build import build_corpus
from bertsmith.data.settings import CorpusSettings
from bertsmith.data.sharded_build import build_with
from bertsmith.errors import InputError
from bertsmith.system.processes import LocalProcesses
from bertsmith.vocabulary.settings import TokenizerSettings
from bertsmith.vocabulary.train import write_tokenizer

pytest.importorskip("distributed", reason="Dask is not installed (pip install distributed)")
SETTINGS = CorpusSettings(held_out=0.1, deduplicate=True, shard_tokens=999)


@pytest.fixture(scope="module")
def cluster():
    with local_cluster() as made:
        yield made


@pytest.fixture(autouse=True)
def small_units(monkeypatch):
    monkeypatch.setattr(work_units, "MIN_UNIT_BYTES", 600)


@pytest.fixture
def texts(tmp_path):
    return write_texts(tmp_path / "texts")


def test_a_killed_worker_changes_no_byte(cluster, texts, tmp_path):
    build_corpus(
        [texts], tiny_wordpiece(), tmp_path / "alone", SETTINGS, executor=LocalProcesses(1)
    )
    for name, executor in (("cluster", cluster[1]), ("killed", KillingExecutor(cluster[1]))):
        build_with(executor, [texts], tiny_wordpiece(), tmp_path / name, SETTINGS)
        assert contents(tmp_path / name) == contents(tmp_path / "alone")


def test_a_text_that_cannot_be_read_is_named(cluster, texts, tmp_path):
    (texts / "c.txt").write_bytes(b"good\n\nb\xffd\n")
    with refuses(InputError, "c.txt:3", "--errors skip"):
        build_with(cluster[1], [texts], tiny_wordpiece(), tmp_path / "out", SETTINGS)


def test_corpus_build(cluster, texts, tmp_path, bertsmith, refused):
    tiny_wordpiece().save(tmp_path / "vocab")
    words = ["corpus", "build", texts, "--tokenizer", tmp_path / "vocab"]
    bertsmith(*words, "--out", tmp_path / "alone", "--processes", 1)
    shown = bertsmith(*words, "--out", tmp_path / "out", "--scheduler", cluster[0])
    assert "bertsmith pretrain" in shown
    assert contents(tmp_path / "out") == contents(tmp_path / "alone")
    for more in (["--shard", "1/2"], ["--processes", 2]):
        message = refused(*words, "--out", tmp_path / "new", "--scheduler", cluster[0], *more)
        assert more[0] in message and "--scheduler" in message
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe"])
def test_tokenizer_train(cluster, texts, tmp_path, bertsmith, refused, kind):
    words = ["tokenizer", "train", texts, "--kind", kind, "--vocab-size", 300, "--no-compare"]
    words += ["--held-out-share", 0.2, "--json"]
    alone = bertsmith(*words, "--out", tmp_path / "alone", "--processes", 1)
    report = bertsmith(*words, "--out", tmp_path / "out", "--scheduler", cluster[0])
    assert contents(tmp_path / "out") == contents(tmp_path / "alone")
    differing = ("out", "seconds", "settings")
    assert without(json.loads(report), *differing) == without(json.loads(alone), *differing)
    message = refused(*words, "--out", tmp_path / "b", "--scheduler", "x", "--processes", 1)
    assert "--processes" in message


def test_a_worker_that_is_killed_while_it_counts(cluster, texts, tmp_path):
    settings = TokenizerSettings(files=(str(texts),), vocab_size=200, compare=False, processes=1)
    for name, executor in (("alone", None), ("killed", KillingExecutor(cluster[1]))):
        write_tokenizer(settings, tmp_path / name, executor=executor)
    assert contents(tmp_path / "killed") == contents(tmp_path / "alone")


def without(report, *names):
    return {name: value for name, value in report.items() if name not in names}

"""Shards of a corpus, encoded by processes that share a folder: merged, they are its bytes."""

import gzip
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from folders import contents
from memory_peak import peak
from refusals import refuses
from tiny_tokenizers import tiny_wordpiece
from unit_texts import write_texts

from bertsmith.data import corpus_build as corpus_module
from bertsmith.data import encoded_units, work_units
from bertsmith.data.corpus_build import build_corpus
from bertsmith.data.settings import CorpusSettings, ShardNumber
from bertsmith.data.sharded_build import build_shard, build_with, merge_corpus
from bertsmith.errors import ConfigError, CorpusError, InputError, SettingError
from bertsmith.system.locks import hold_folder
from bertsmith.system.processes import LocalProcesses

SETTINGS = CorpusSettings(held_out=0.1, deduplicate=True, shard_tokens=999)


@pytest.fixture(autouse=True)
def small_units(monkeypatch):
    monkeypatch.setattr(work_units, "MIN_UNIT_BYTES", 600)
    monkeypatch.setattr(encoded_units, "DOCUMENTS_AT_ONCE", 3)
    monkeypatch.setattr(corpus_module, "BLOCK_CHARS", 300)


@pytest.fixture
def texts(tmp_path):
    folder = write_texts(tmp_path / "texts")
    (folder / "c.txt.gz").write_bytes(gzip.compress(b"The river. It flows.\n\n" * 9))
    (folder / "d.pdf").write_bytes(b"%PDF")
    return folder


@pytest.fixture
def tokenizer():
    return tiny_wordpiece()


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def build(texts, tokenizer, out):
    def build_one(shard, settings=SETTINGS, tokenizer=tokenizer, texts=texts, **more):
        more.setdefault("executor", LocalProcesses(1))
        return build_shard([texts], tokenizer, out, settings, ShardNumber.parse(shard), **more)

    return build_one


@pytest.mark.parametrize("held_out", [0, 1e-9, 0.3], ids=["none", "smallest", "share"])
def test_merged_shards_are_the_corpus_of_one_process(build, texts, tokenizer, tmp_path, held_out):
    settings = CorpusSettings(held_out=held_out, deduplicate=True, shard_tokens=999)
    for shard, processes in (("2/3", 2), ("3/3", 1), ("1/3", 1)):
        report = build(shard, settings, executor=LocalProcesses(processes))
        assert 0 < report.units < report.all_units and report.documents
    merged = merge_corpus(tmp_path / "out")
    alone = build_corpus([texts], tokenizer, tmp_path / "alone", settings)
    assert merged == alone
    assert contents(tmp_path / "out") == contents(tmp_path / "alone")
    assert "train-00001.ids.npy" in contents(tmp_path / "out")
    assert merged.sources.skipped["duplicate_documents"] > 20


def test_an_executor_builds_the_corpus_of_one_process(texts, tokenizer, out, tmp_path):
    alone = build_corpus([texts], tokenizer, tmp_path / "alone", SETTINGS)
    assert build_with(LocalProcesses(2), [texts], tokenizer, out, SETTINGS) == alone
    assert contents(out) == contents(tmp_path / "alone")
    with refuses(CorpusError, f"{out}:", "--overwrite"):
        build_with(LocalProcesses(1), [texts], tokenizer, out, SETTINGS)
    build_with(LocalProcesses(1), [texts], tokenizer, out, SETTINGS, overwrite=True)
    assert contents(out) == contents(tmp_path / "alone")


def test_a_folder_at_which_a_disk_is_mounted_is_refused_before_texts_are_encoded(
    build, texts, tokenizer, out, monkeypatch
):
    """The system would refuse to move it, as a volume of a container, when all is done."""
    out.mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: os.fspath(path) == str(out))
    for refuse in (
        lambda: build("1/2"),
        lambda: build_with(LocalProcesses(1), [texts], tokenizer, out, SETTINGS),
        lambda: build_corpus([texts], tokenizer, out, SETTINGS),
    ):
        with refuses(ConfigError, f"{out}: ", f"{out}/out"):
            refuse()
        assert not list(out.iterdir())


def test_what_is_complete_is_kept(build, out, monkeypatch):
    build("1/2")
    units = sorted((out / "unmerged").glob("0*"))
    times = [(unit / "unit.json").stat().st_mtime_ns for unit in units]
    (units[1] / "ids.npy").write_bytes(b"cut short")
    build("1/2")
    again = [(unit / "unit.json").stat().st_mtime_ns for unit in units]
    assert [old == new for old, new in zip(times, again, strict=True)] == [
        number != 1 for number in range(len(units))
    ]


def test_a_text_that_was_edited_and_kept_its_size_is_encoded_again(build, texts, out, tmp_path):
    build("1/1")
    path = sorted(texts.glob("*.txt"))[0]
    content = path.read_bytes()
    path.write_bytes(content.replace(b"river", b"ocean"))
    assert content != path.read_bytes() and len(content) == path.stat().st_size
    build("1/1")
    merge_corpus(out)
    build_corpus([texts], tiny_wordpiece(), tmp_path / "alone", SETTINGS)
    assert contents(out) == contents(tmp_path / "alone")


@pytest.mark.parametrize("damage", [
    {"files": []}, {"files": None}, {"files": {"ids.npy": 3}}, {"report": {"files": "many"}},
    {"report": {}}, {"report": None}, {"documents": {}}, {"tokens": None},
])  # fmt: skip
def test_a_part_with_a_damaged_marker_is_encoded_again(build, out, damage):
    build("1/1")
    marker = out / "unmerged" / "00001" / "unit.json"
    record = json.loads(marker.read_text())
    marker.write_text(json.dumps({**record, **damage}))
    build("1/1")
    assert json.loads(marker.read_text()) == record


def test_jobs_that_begin_at_once(build, texts, tokenizer, out, tmp_path):
    shards = [f"{number}/6" for number in range(1, 7)]
    with ThreadPoolExecutor(6) as jobs:
        assert all(report.units for report in jobs.map(build, shards))
    merge_corpus(out)
    build_corpus([texts], tokenizer, tmp_path / "alone", SETTINGS)
    assert contents(out) == contents(tmp_path / "alone")


def test_a_missing_shard_is_named(build, out):
    build("1/3")
    with refuses(CorpusError, f"{out}:", "2/3, 3/3", "--shard 2/3"):
        merge_corpus(out)
    build("2/3")
    build("3/3")
    shutil.rmtree(sorted((out / "unmerged").glob("0*"))[2])
    before = contents(out)
    with refuses(CorpusError, f"{out}:", "3/3", "--shard 3/3"):
        merge_corpus(out)
    assert contents(out) == before


def test_an_altered_part_is_named(build, out):
    build("1/1")
    path = out / "unmerged" / "00001" / "ids.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    with refuses(CorpusError, f"{path}:", "again"):
        merge_corpus(out)
    assert path.exists()


def test_a_folder_without_shards_is_not_merged(out):
    with refuses(CorpusError, f"{out}:", "--shard 1/16"):
        merge_corpus(out)


def test_two_builds_in_one_folder(build, texts, tokenizer, out):
    build("1/2")
    for settings, part in (
        (CorpusSettings(held_out=0.2, deduplicate=True, shard_tokens=999), "--held-out 0.1"),
        (CorpusSettings(held_out=0.1, shard_tokens=999), "--deduplicate"),
    ):
        with refuses(CorpusError, f"{out}", part, "unmerged"):
            build("2/2", settings)
    with refuses(CorpusError, "2 shards", "3 shards"):
        build("2/3")
    with refuses(CorpusError, "fingerprint"):
        build("2/2", tokenizer=tiny_wordpiece(lowercase=False))
    (texts / "e.txt").write_text("more")
    with refuses(CorpusError, "e.txt"):
        build("2/2")
    (texts / "e.txt").unlink()
    (texts / "f.pdf").write_bytes(b"%PDF")
    with refuses(CorpusError, "1 file of an unsupported format", "2 files"):
        build("2/2")
    (texts / "f.pdf").unlink()
    with (texts / "b.csv").open("a") as file:
        file.write("more\n")
    with refuses(CorpusError, "b.csv", "bytes"):
        build("2/2")
    for overwrite in (False, True):
        with refuses(CorpusError, f"{out}:", "bertsmith corpus merge"):
            build_corpus([texts], tokenizer, out, SETTINGS, overwrite=overwrite)


def test_another_version_began_it(build, out):
    build("1/2")
    path = out / "unmerged" / "plan.json"
    plan = json.loads(path.read_text())
    path.write_text(json.dumps(plan | {"version": "0.0.1"}))
    with refuses(CorpusError, "bertsmith 0.0.1", worded=False):
        build("2/2")
    path.write_text("{")
    with refuses(CorpusError, f"{path}:", "damaged"):
        build("2/2")
    damages: list[tuple[str, dict[str, Any]]] = [
        ("shards", {"shards": []}), ("shards", {"shards": 0}), ("units", {"units": "many"}),
        ("held_out", {"settings": {"held_out": None}}),
    ]  # fmt: skip
    for field, damage in damages:
        path.write_text(json.dumps(plan | damage))
        with refuses(CorpusError, f"{path}:", "damaged", field, worded=False):
            merge_corpus(out)


def test_two_at_once(build, out):
    """Shards share the folder; a merge is alone there, and so is each shard in its own folder."""
    build("1/2")
    with ThreadPoolExecutor(1) as elsewhere:  # locks are the thread's
        with (
            hold_folder(out, shared=True),
            hold_folder(out / "unmerged" / "shard-00002"),
        ):
            assert elsewhere.submit(build, "1/2").result().units
            with refuses(ConfigError, "shard-00002: another process"):
                elsewhere.submit(build, "2/2").result()
            with refuses(ConfigError, f"{out}: another process"):
                elsewhere.submit(merge_corpus, out).result()
        with hold_folder(out), refuses(ConfigError, f"{out}: another process"):
            elsewhere.submit(build, "1/2").result()


class Elsewhere:
    """Executor on a machine that does not see a path."""

    def __init__(self, path):
        self.path = path

    def map_in_order(self, work, items):
        hidden = self.path.rename(self.path.with_name("hidden"))
        try:
            yield from map(work, items)
        finally:
            hidden.rename(self.path)


@pytest.mark.parametrize("name", ["texts/b.csv", "out/unmerged"])
def test_a_path_that_workers_do_not_see(texts, tokenizer, out, name):
    path = out.parent / name
    with refuses(InputError, f"{path}", "is not seen on the machine", worded=False):
        build_with(Elsewhere(path), [texts], tokenizer, out, SETTINGS)


def test_an_error_leaves_complete_parts_alone(build, texts, out):
    (texts / "c.txt.gz").write_bytes(b"no gzip data")
    with refuses(InputError, "c.txt.gz"):
        build("1/1")
    assert sorted(path.name for path in (out / "unmerged").glob("0*"))[0] == "00000"
    with refuses(CorpusError, "parts are missing"):
        merge_corpus(out)


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", "-1/2"])
def test_numbers_of_shards(text):
    with refuses(SettingError, "--shard", text, "such as 3/16"):
        ShardNumber.parse(text)


def test_memory_does_not_grow_with_a_compressed_file(tokenizer, tmp_path, monkeypatch):
    """A compressed file is one part, which is encoded and read back some texts at a time."""
    monkeypatch.setattr(encoded_units, "PARTITION_BYTES", 1 << 13)
    peaks = []
    for num_texts in (250, 1000):
        text = "".join(f"The river {n} runs. " * 5 + "\n\n" for n in range(num_texts))
        path = tmp_path / f"{num_texts}.txt.gz"
        path.write_bytes(gzip.compress(text.encode()))
        folder = tmp_path / f"out-{num_texts}"

        def build_and_merge(path=path, folder=folder):
            shard = ShardNumber(1, 1)
            build_shard([path], tokenizer, folder, SETTINGS, shard, executor=LocalProcesses(1))
            merge_corpus(folder)

        if not peaks:
            build_and_merge(folder=tmp_path / "first")  # tables that are made once
        peaks.append(peak(build_and_merge))
    assert peaks[1] - peaks[0] < 1_000_000  # three million, where all texts are encoded at once

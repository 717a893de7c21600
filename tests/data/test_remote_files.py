"""Texts in stores: read as local ones are, and what cannot be read is named by its address."""

import gzip

import pytest
from folders import contents
from refusals import refuses
from tiny_tokenizers import TEXT, tiny_wordpiece

from bertsmith.data import encoding, work_units
from bertsmith.data.corpus_build import build_corpus
from bertsmith.data.remote_files import RemoteFile, is_url
from bertsmith.data.settings import CorpusSettings, ShardNumber
from bertsmith.data.sharded_build import build_shard, merge_corpus
from bertsmith.data.sources import Source, find_sources
from bertsmith.errors import InputError
from bertsmith.system.processes import LocalProcesses

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed (pip install fsspec)")


@pytest.fixture
def texts(tmp_path, monkeypatch):
    """A folder of texts, the same in fsspec's memory."""
    monkeypatch.setattr(encoding, "PARTITION_BYTES", 300)
    monkeypatch.setattr(work_units, "MIN_UNIT_BYTES", 600)
    folder = tmp_path / "texts"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("\n\n".join(f"{TEXT[:n]} {n}" for n in range(1, 60)))
    (folder / "b.jsonl").write_text('{"text": "The river runs."}\n' * 9)
    (folder / "deep" / "c.csv").write_text("text\nrivers\n")
    (folder / "d.txt.gz").write_bytes(gzip.compress(b"The river. It flows.\n\n" * 9))
    (folder / ".hidden.txt").write_text("hidden")
    (folder / "e.pdf").write_bytes(b"%PDF")
    memory = fsspec.filesystem("memory")
    memory.pipe({f"/texts/{name}": content for name, content in contents(folder).items()})
    yield folder
    memory.rm("/texts", recursive=True)


def names(*paths):
    return [str(source.path).rpartition("texts/")[2] for source in find_sources(paths)[0]]


def test_files_folders_and_patterns(texts):
    assert names("memory://texts") == names(texts)
    assert names("memory://texts/*.txt") == ["a.txt"]
    assert names("memory://texts/a.txt", "memory://texts", f"file://{texts}/b.jsonl") == [
        "b.jsonl", *names(texts),
    ]  # fmt: skip
    assert find_sources(["memory://texts"])[1]["unsupported_files"] == 1


def test_the_query_of_a_web_address_is_no_part_of_the_name():
    source = Source.from_name(RemoteFile("https://host/a.jsonl.gz?download=true&from=b/c"))
    assert source is not None and (source.format, source.compression) == ("jsonl", "gz")
    assert RemoteFile("memory://texts/who?.txt").name == "who?.txt"


@pytest.mark.parametrize("shards", [0, 2])
@pytest.mark.parametrize("store", ["memory", "file"])
def test_the_corpus_is_that_of_local_files(texts, tmp_path, store, shards):
    url = {"memory": "memory://texts", "file": f"file://{texts}"}[store]
    processes = LocalProcesses(1 if store == "memory" else 2)  # each has a memory of its own
    settings = CorpusSettings(held_out=0.1)
    out = tmp_path / "out"
    if shards:
        for number in range(1, shards + 1):
            shard = ShardNumber(number, shards)
            build_shard([url], tiny_wordpiece(), out, settings, shard, executor=processes)
        merge_corpus(out)
    else:
        build_corpus([url], tiny_wordpiece(), out, settings, executor=processes)
    build_corpus([texts], tiny_wordpiece(), tmp_path / "local", settings)
    remote, local = contents(out), contents(tmp_path / "local")
    assert without_names(remote) == without_names(local)
    assert url.encode() in remote["manifest.json"]


def without_names(files):
    """Return the files of a corpus but for the manifest, which names the texts."""
    return {name: content for name, content in files.items() if name != "manifest.json"}


def test_what_cannot_be_read_is_named(texts):
    for url, part in (
        ("memory://nothing", "no file found"),
        ("memory://texts/*.pdf", ".pdf"),
        ("gs://bucket/texts", "gcsfs"),
        ("nostore://bucket/texts", "nostore"),
    ):
        with refuses(InputError, f"{url}: ", part, worded=False):
            find_sources([url])


def test_a_bad_line_is_numbered(texts, tmp_path):
    lines = b'{"text": "fine"}\n' * 50 + b"{\n"
    with fsspec.open("memory://texts/f.jsonl", "wb") as file:
        file.write(lines)
    with refuses(InputError, "memory:///texts/f.jsonl:51:", worded=False):
        build_corpus(["memory://texts/f.jsonl"], tiny_wordpiece(), tmp_path / "out",
                     executor=LocalProcesses(1))  # fmt: skip


def test_paths_are_no_addresses():
    assert not any(map(is_url, ["a.txt", "/a/b", "C:\\texts", "a/b://c", "./s3:/x"]))

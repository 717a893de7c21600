"""An executor of one's own: it builds the corpus that the processes of this machine build."""

from concurrent.futures import ThreadPoolExecutor

from tiny_tokenizers import TEXT, tiny_wordpiece

from bertsmith.data import encoding
from bertsmith.data.corpus_build import build_corpus
from bertsmith.data.partitions import Partition
from bertsmith.data.settings import CorpusSettings
from bertsmith.system.processes import LocalProcesses


class Threads:
    def __init__(self):
        self.items = []

    def map_in_order(self, work, items):
        with ThreadPoolExecutor(3) as pool:
            self.items = list(items)
            yield from pool.map(work, self.items)


def test_threads_build_the_same_corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(encoding, "PARTITION_BYTES", 300)
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "a.txt").write_text("\n\n".join(f"{TEXT[:n]} {n}" for n in range(1, 90)))
    (texts / "b.csv").write_text("text\n" + "".join(f"{n} rivers\n" for n in range(50)))
    settings = CorpusSettings(held_out=0.1, deduplicate=True)
    threads, folders = Threads(), [tmp_path / name for name in ("processes", "threads")]
    for folder, executor in zip(folders, (LocalProcesses(1), threads), strict=True):
        build_corpus([texts], tiny_wordpiece(), folder, settings, executor=executor)
    ours, theirs = ({p.name: p.read_bytes() for p in f.glob("*.*")} for f in folders)
    assert ours == theirs
    assert sum(isinstance(item, Partition) for item in threads.items) > 10

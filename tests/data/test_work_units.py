"""Work units: whole files, or cuts of large ones, in an order that no setting changes."""

import gzip

import pytest
from refusals import refuses

from bertsmith.data import work_units
from bertsmith.data.documents import DocumentReader
from bertsmith.data.partitions import Partition
from bertsmith.data.reading import SourceReport
from bertsmith.data.sources import find_sources
from bertsmith.data.work_units import plan_work_units
from bertsmith.errors import InputError


@pytest.fixture
def sources(tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"document {n}\n\n" for n in range(100)))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"packed\n\n" * 99))
    for name in "cdef":
        (tmp_path / f"{name}.jsonl").write_text('{"text": "short"}\n')
    return find_sources([tmp_path])[0]


def read(partitions):
    reader, report = DocumentReader(), SourceReport()
    return [d.text for part in partitions for d in reader.read(part, report)], report


def test_units_hold_all_documents_and_cut_a_large_file(sources, monkeypatch):
    monkeypatch.setattr(work_units, "MIN_UNIT_BYTES", 200)
    units = plan_work_units(sources)
    assert [unit.index for unit in units] == list(range(len(units)))
    assert sum(unit.num_bytes for unit in units) == sum(s.path.stat().st_size for s in sources)
    assert read(part for unit in units for part in unit.partitions) == read(map(Partition, sources))
    names = [[part.source.path.name for part in unit.partitions] for unit in units]
    assert names.count(["a.txt"]) > 4
    assert {"b.txt.gz", "c.jsonl", "f.jsonl"} <= set(names[-1])


def test_small_texts_are_one_unit(sources):
    (unit,) = plan_work_units(sources)
    assert [part.source for part in unit.partitions] == sources


def test_a_file_that_is_gone_is_named(sources):
    sources[0].path.unlink()
    with refuses(InputError, "a.txt"):
        plan_work_units(sources)

"""Partitions: read apart, they hold what the whole files hold."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses

from bertsmith.data import partitions
from bertsmith.data.documents import DocumentReader
from bertsmith.data.partitions import Partition, plan_partitions
from bertsmith.data.reading import SourceReport
from bertsmith.data.sources import find_sources
from bertsmith.errors import InputError

LINES = st.sampled_from(["word", "两行。", "", " \t", "\r", "\x01", "x" * 40, '{"text": "a"}'])


def read(parts, errors="skip"):
    report = SourceReport()
    found = [d.text for part in parts for d in DocumentReader(errors=errors).read(part, report)]
    return found, report


@pytest.mark.parametrize("ending", ["txt", "jsonl"])
@settings(max_examples=50)
@given(lines=st.lists(LINES, max_size=40), target=st.integers(1, 50))
def test_partitions_hold_the_whole_file(tmp_path_factory, ending, lines, target):
    path = tmp_path_factory.mktemp("texts") / f"a.{ending}"
    path.write_text("\n".join(lines), newline="")
    sources = find_sources([path])[0]
    parts = list(plan_partitions(sources, target))
    assert read(parts) == read(map(Partition, sources))
    if len(parts) > 1:
        ends = [part.end for part in parts]
        assert [part.start for part in parts] == [0, *ends[:-1]]
        assert ends[-1] in (None, path.stat().st_size)


def test_files_that_cannot_be_divided(tmp_path):
    (tmp_path / "a.csv").write_text("text\n" * 99)
    (tmp_path / "b.txt.gz").write_text("words\n\n" * 99)
    parts = list(plan_partitions(find_sources([tmp_path])[0], 10))
    assert [(part.start, part.end) for part in parts] == [(0, None), (0, None)]


def test_a_document_without_end_is_one_partition(tmp_path, monkeypatch):
    monkeypatch.setattr(partitions, "_SEARCHED_BYTES", (10, 20))
    (tmp_path / "a.txt").write_text("x\n\n" * 9 + "no end " * 99 + "\n\nlast")
    parts = plan_partitions(find_sources([tmp_path])[0], 10)
    assert [(part.start, part.end) for part in parts] == [(0, 12), (12, 24), (24, None)]


def test_a_file_that_becomes_shorter_is_not_read_in_part(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one text\n\n" * 9)
    parts = list(plan_partitions(find_sources([path])[0], 30))
    path.write_text("one text\n\n" * 8)
    with refuses(InputError, "a.txt", "10 bytes are missing"):
        read(parts)


@pytest.mark.parametrize("ending, bad", [("txt", b"b\xffd"), ("jsonl", b"{")])
def test_an_error_names_the_line_of_the_file(tmp_path, ending, bad):
    path = tmp_path / f"a.{ending}"
    good = json.dumps({"text": "good"}).encode()
    path.write_bytes((good + b"\n\n") * 50 + bad + b"\n")
    sources = find_sources([path])[0]
    for parts in (map(Partition, sources), plan_partitions(sources, 30)):
        with refuses(InputError, f"a.{ending}:101:", worded=ending == "txt"):
            read(parts, "strict")

"""A journal is what was written, or says which line is not."""

import json

import pandas
import pytest
from refusals import refuses

from bertsmith.errors import CheckpointError
from bertsmith.training.journal import Journal, cut_journal, read_journal

ENTRIES = [{"step": step, "loss": 2.5 / step, "learning_rate": 1e-4} for step in range(1, 5)]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        for entry in ENTRIES:
            journal.write(entry)
    return path


def test_checksums_are_not_part_of_entries_and_other_programs_read_the_rest(path):
    assert read_journal(path) == ENTRIES
    assert [json.loads(line)["loss"] for line in path.read_text().splitlines()] == [
        entry["loss"] for entry in ENTRIES
    ]
    assert pandas.read_json(path, lines=True)["loss"].tolist() == pytest.approx(
        [entry["loss"] for entry in ENTRIES]
    )


def test_every_flipped_bit_is_noticed(path):
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in range(8):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << bit
            path.write_bytes(flipped)
            with pytest.raises(CheckpointError):
                read_journal(path)


def test_the_altered_line_is_named(path):
    path.write_bytes(path.read_bytes().replace(b'"step": 3', b'"step": 9'))
    with refuses(CheckpointError, "journal.jsonl:3: "):
        read_journal(path)


def test_a_half_line_of_a_killed_run_is_dropped(path):
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rpartition(b"\n")[2]
    for cut in range(1, len(last) + 2):
        path.write_bytes(whole[:-cut])
        assert read_journal(path) == ENTRIES[:3]
    assert cut_journal(path, 3) == ENTRIES[:3]
    assert path.read_bytes() == whole[: -len(last) - 1]


def test_a_journal_without_checksums_is_read_and_gets_them_when_it_is_continued(path):
    whole = path.read_bytes()
    path.write_text("".join(json.dumps(entry) + "\n" for entry in ENTRIES))
    assert read_journal(path) == ENTRIES
    cut_journal(path, 4)
    assert path.read_bytes() == whole

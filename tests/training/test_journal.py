"""A journal is what was written, or says which line is not."""

import json
from dataclasses import asdict, dataclass

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


def write_unchecked(path, *entries):
    """Write a journal of an earlier version, whose lines have no checksums."""
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


@pytest.mark.parametrize("has_checksums", [False, True])
def test_a_value_of_another_type_is_named_with_its_line(tmp_path, has_checksums):
    path = tmp_path / "journal.jsonl"
    for changes, found in (
        ({"step": True}, "not a line of a journal"),
        ({"step": 2.0}, "not a line of a journal"),
        ({"step": -1}, "not a line of a journal"),
        ({"loss": "2.5"}, "'loss' is \"2.5\""),
        ({"loss": None}, "'loss' is null"),
        ({"loss": True}, "'loss' is true"),
        ({"loss": [2.5]}, "'loss' is [2.5]"),
        ({"loss": {}}, "'loss' is {}"),
        ({"loss": float("nan")}, "'loss' is NaN"),
        ({"loss": -float("inf")}, "'loss' is -Infinity"),
        ({"loss": 10**400}, "'loss' is 1000"),
        ({"learning_rate": "1e-4"}, "'learning_rate' is \"1e-4\""),
    ):
        entries = [ENTRIES[0], {**ENTRIES[1], **changes}, ENTRIES[2]]
        write_unchecked(path, *entries)
        if has_checksums:
            path.unlink()
            with Journal(path) as journal:
                for entry in entries:
                    journal.write(entry)
        before = path.read_bytes()
        for read in (read_journal, lambda path: cut_journal(path, 1)):
            with refuses(CheckpointError, "journal.jsonl:2: ", found):
                read(path)
        assert path.read_bytes() == before


def test_a_missing_value_is_named_when_it_is_read(path):
    entry = read_journal(path)[2]
    assert entry.get("gradient_norm") is None
    with refuses(CheckpointError, "journal.jsonl:3: ", "'gradient_norm' is missing"):
        entry["gradient_norm"]


def test_entries_stay_numbers_in_a_summary(path):
    @dataclass
    class Summary:
        last_step: dict

    assert asdict(Summary(read_journal(path)[-1])) == {"last_step": ENTRIES[-1]}


def test_a_file_that_cannot_be_read_says_why(tmp_path):
    (tmp_path / "journal.jsonl").mkdir()
    with refuses(CheckpointError, "journal.jsonl: "):
        read_journal(tmp_path / "journal.jsonl")
    with pytest.raises(FileNotFoundError):  # a run page begins without one
        read_journal(tmp_path / "none.jsonl")

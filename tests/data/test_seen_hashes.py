"""A set of hashes in sorted tables is a set, in memory and in files."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from bertsmith.data import seen_hashes
from bertsmith.data.seen_hashes import SeenHashes

HASHES = st.one_of(st.integers(0, 30), st.integers(0, 2**64 - 1))


@settings(max_examples=100)
@given(parts=st.lists(st.lists(HASHES, max_size=9), max_size=30), in_memory=st.integers(1, 40))
def test_the_first_of_equal_hashes_is_new(parts, in_memory):
    seen = set()
    seen_hashes.MAX_IN_MEMORY, before = in_memory, seen_hashes.MAX_IN_MEMORY
    seen_hashes.ROWS_AT_ONCE, rows_before = 3, seen_hashes.ROWS_AT_ONCE
    try:
        with SeenHashes() as table:
            for part in parts:
                expected = []
                for hashed in part:
                    expected.append(hashed not in seen)
                    seen.add(hashed)
                assert table.add(part).tolist() == expected
            assert sum(map(len, table._tables)) == len(seen)
    finally:
        seen_hashes.MAX_IN_MEMORY, seen_hashes.ROWS_AT_ONCE = before, rows_before


def test_files_are_few_and_removed(monkeypatch):
    monkeypatch.setattr(seen_hashes, "MAX_IN_MEMORY", 100)
    with SeenHashes() as table:
        for start in range(0, 20_000, 50):
            assert table.add(range(start, start + 50)).all()
        assert not table.add(range(20_000)).any()
        folder = Path(table._folder.name)
        assert len(table._tables) < 10
        assert 0 < len(list(folder.iterdir())) <= len(table._tables)
    assert not folder.exists()

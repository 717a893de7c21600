"""Counts of words beyond memory: the sums of all, and the most frequent, whoever counted them."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertsmith.vocabulary.word_counts import WordCounts, read_counts

COUNTS = st.lists(st.dictionaries(st.text("ab\n \u6f22", max_size=3), st.integers(1, 4)))


@settings(max_examples=50)
@given(counts=COUNTS, max_words=st.integers(1, 9))
def test_words_beyond_memory_are_counted_on_disk(tmp_path_factory, counts, max_words):
    folder = tmp_path_factory.mktemp("counts")
    total = sum(map(Counter, counts), Counter())
    with WordCounts(max_words) as words:
        for each in counts:
            words.update(each)
        words.write(folder / "all.arrow")
        frequent = words.most_frequent()
    assert list(read_counts(folder / "all.arrow")) == sorted(total.items())
    assert (frequent.num_distinct, frequent.total) == (len(total), total.total())
    assert len(frequent.counts) == min(max_words, len(total))
    assert frequent.counts.items() <= total.items()
    least = min(frequent.counts.values(), default=0)
    assert all(count <= least for word, count in total.items() if word not in frequent.counts)
    with WordCounts(max_words) as backwards:
        for each in reversed(counts):
            backwards.update(each)
        assert backwards.most_frequent() == frequent


def test_files_on_disk_end_with_the_block():
    with pytest.raises(KeyError), WordCounts(1) as words:
        words.update(["a", "b"])
        (path,) = words._paths
        assert path.exists()
        raise KeyError
    assert not path.parent.exists()

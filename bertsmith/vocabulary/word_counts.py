"""Counts of words: memory holds a few million of them, sorted files on disk the rest.

Sorted files are merged a row at a time, so that memory does not grow with the text. The words that
are kept in the end depend on the counts alone, not on the order of the texts or on the processes
that counted.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from bertsmith.data.splits import text_hash
from bertsmith.system.files import atomic_write
from bertsmith.system.scratch_folder import ScratchFolder

MAX_WORDS = 1 << 22
"""Largest number of distinct words that are held in memory, and that are learned from; about 100
bytes each."""
ROWS_AT_ONCE = 1 << 12
"""Words that are read from a file, or written to one, at once."""
_WORD = itemgetter(0)
"""Function that takes the word from a pair of word and count."""


@dataclass(frozen=True, slots=True)
class FrequentWords:
    """The most frequent words, and the numbers of all words: distinct, and in total."""

    counts: Counter[str]
    num_distinct: int
    total: int


class WordCounts(ScratchFolder):
    """Growing counts of words; a context manager, which removes its files."""

    def __init__(self, max_words: int | None = None) -> None:
        super().__init__(prefix="bertsmith-words-")
        self._max_words = max_words or MAX_WORDS
        self._counts: Counter[str] = Counter()
        self._paths: list[Path] = []

    def update(self, words: Iterable[str] | Mapping[str, int]) -> None:
        """Count more words, or add their counts."""
        self._counts.update(words)
        if len(self._counts) > self._max_words:
            path = self.new_path(".arrow")
            write_counts(path, sorted(self._counts.items()))
            self._paths.append(path)
            self._counts.clear()

    def add_file(self, path: Path) -> None:
        """Add the counts in a file that `write` wrote; it must exist until the counts are read."""
        self._paths.append(path)

    def write(self, path: Path) -> None:
        """Write all counts to a file, sorted by word."""
        write_counts(path, self._sorted())

    def most_frequent(self) -> FrequentWords:
        """Return at most `max_words` words; of equally frequent ones, those of the lowest hash."""
        if not self._paths and len(self._counts) <= self._max_words:
            return FrequentWords(self._counts, len(self._counts), self._counts.total())
        # All words above a count are kept, and of the words with just that count as many as have
        # room.
        num_words_of_count = Counter(count for _, count in self._sorted())
        num_kept, lowest_count = 0, 0
        for count in sorted(num_words_of_count, reverse=True):
            if num_kept + num_words_of_count[count] > self._max_words:
                lowest_count = count
                break
            num_kept += num_words_of_count[count]
        counts = Counter({word: count for word, count in self._sorted() if count > lowest_count})
        rarest = (word for word, count in self._sorted() if count == lowest_count)
        chosen = heapq.nsmallest(self._max_words - num_kept, rarest, key=text_hash)
        counts.update(dict.fromkeys(chosen, lowest_count))
        total = sum(count * number for count, number in num_words_of_count.items())
        return FrequentWords(counts, num_words_of_count.total(), total)

    def _sorted(self) -> Iterator[tuple[str, int]]:
        """Yield all words with their counts, sorted by word."""
        return merge_counts([sorted(self._counts.items()), *map(read_counts, self._paths)])


def merge_counts(
    sorted_counts: Sequence[Iterable[tuple[str, int]]],
) -> Iterator[tuple[str, int]]:
    """Merge counts that are sorted by word: yield each word once with its sum, sorted."""
    for word, pairs in groupby(heapq.merge(*sorted_counts, key=_WORD), key=_WORD):
        yield word, sum(count for _, count in pairs)


def write_counts(path: Path, sorted_counts: Iterable[tuple[str, int]]) -> None:
    """Write words and counts to a file of Arrow, whole or not at all.

    Raises:
        InputError: the file cannot be written.
    """
    import pyarrow

    rows = iter(sorted_counts)
    schema = pyarrow.schema({"word": pyarrow.large_string(), "count": pyarrow.int64()})
    with (
        # A sweep for temporary files of killed processes lists the folder, and it has many files.
        atomic_write(path, sweep=False) as file,
        pyarrow.ipc.new_file(file, schema) as writer,
    ):
        while batch := list(islice(rows, ROWS_AT_ONCE)):
            words, counts = zip(*batch, strict=True)
            writer.write_batch(pyarrow.record_batch([words, counts], schema=schema))


def read_counts(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the words and counts of a file, some thousand at a time in memory."""
    import pyarrow

    with path.open("rb") as file, pyarrow.ipc.open_file(file) as reader:
        for index in range(reader.num_record_batches):
            batch: Any = reader.get_batch(index)
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

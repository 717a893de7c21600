"""The base class of readers of examples, from files or rows in memory.

A reader is an iterable; this class adds methods that read its first examples alone and count them.
"""

import itertools
from abc import ABC
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

from bertsmith.data.sources import ending_of
from bertsmith.data.text_files import ExampleSource
from bertsmith.errors import InputError, SettingError
from bertsmith.system.bounds import check_largest

ExampleT = TypeVar("ExampleT")


class Reader(ABC, Iterable[ExampleT], Generic[ExampleT]):
    """Lazy reader of the examples of a file, or of rows in memory."""

    source: ExampleSource
    """The file, or the rows in memory."""
    num_skipped = 0
    """Number of rows skipped so far."""

    def first(self, limit: int | None = None) -> Iterator[ExampleT]:
        """Yield at most `limit` examples.

        Raises:
            ConfigError: `limit` is not above 0.
        """
        check_limit(limit)
        return itertools.islice(self, limit)

    def count(self, limit: int | None = None) -> int | None:
        """Count the examples of a file, up to `limit`, by reading the file once more.

        Reading takes far less time than a model does. The result is None if the number is not
        known: for rows in memory, for standard input, and for Excel files, which take long to read;
        and if a row cannot be read, which causes an error later, when the examples are read.
        """
        source = self.source
        if not isinstance(source, Path) or not source.is_file() or ending_of(source) == "xlsx":
            return None
        try:
            return sum(1 for _ in self.first(limit))
        except InputError:
            return None

    def read(self, limit: int | None = None) -> list[ExampleT]:
        """Read at most `limit` examples, as `first` does.

        Raises:
            ConfigError: `limit` is not above 0.
        """
        return list(self.first(limit))


def count_chars(content: Any) -> int:
    """Count the characters of an example's `content`: a text, None, or a sequence of contents."""
    return len(content) if isinstance(content, str) else sum(map(count_chars, content or ()))


def check_limit(limit: int | None) -> None:
    """Check that `limit` is None, or above 0 and not too large.

    Raises:
        ConfigError: `limit` is below 1, or too large.
    """
    if limit is not None and limit < 1:
        raise SettingError("limit", limit, "1 or more")
    check_largest("limit", limit)

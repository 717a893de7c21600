"""Split Chinese text into words, by a word list or another package's function.

Masking by words needs this, since Chinese has no spaces. Word list and function become a
`Segmenter`, a function that splits a text of Chinese characters into words. The words joined are
the text again.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from bertsmith.data.text_files import iter_lines
from bertsmith.errors import ConfigError, InputError, option
from bertsmith.system.named_functions import FunctionSetting
from bertsmith.tokenization.normalize import code_ranges

Segmenter = Callable[[str], list[str]]

SAMPLE = "我们在北京学习语言"
"""Text by which a segmenter is tested: "we learn languages in Beijing"."""
SEGMENTER = FunctionSetting(
    "segmenter",
    example="jieba:lcut",
    advice="Name a function that takes a text and returns its words.",
    lack="cuts no text into words",  # said of a module of Python itself, which is refused
)


def read_word_list(path: Path) -> Segmenter:
    """Build a forward-maximum-matching segmenter from a file, one word per line.

    At each place the segmenter takes the longest listed word that begins there, or a single
    character if none does. Empty lines are skipped.

    Raises:
        ConfigError: the file cannot be read, a line is not one word, or no word has two Chinese
            characters or more, so that the list would change nothing.
    """
    chinese = code_ranges("CHINESE")
    words = set(_read_words(path))
    useful = {word for word in words if len(word) > 1 and all(char in chinese for char in word)}
    if not useful:
        raise ConfigError(
            f"{path}: none of its {len(words):,} words has two Chinese characters or more. Give a "
            f"list of Chinese words, or leave out {option('word_list')}."
        )
    return MaximumMatching(useful)


def _read_words(path: Path) -> Iterator[str]:
    """Yield the words of a file that has one word on each line.

    Raises:
        ConfigError: the file cannot be read, or a line has several words.
    """
    try:
        for number, line in enumerate(iter_lines(path), start=1):
            if len(line.split()) > 1:
                raise ConfigError(
                    f"{path}:{number}: {line.rstrip()[:40]!r} is more than one word. Put one word "
                    "on each line, without frequencies or tags."
                )
            yield from line.split()
    except InputError as error:
        raise ConfigError(f"{option('word_list')} {error.message}") from error


class MaximumMatching:
    """Segmenter that takes the longest known word at each place, left to right."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = frozenset(words)
        self._longest: dict[str, int] = {}
        """Characters of the longest word that begins with a character."""
        for word in self._words:
            self._longest[word[0]] = max(len(word), self._longest.get(word[0], 1))

    def __call__(self, text: str) -> list[str]:
        """Split a text into words.

        >>> MaximumMatching(["北京", "北京大学", "学生"])("北京大学生")
        ['北京大学', '生']
        """
        words = []
        start = 0
        while start < len(text):
            end = start + min(self._longest.get(text[start], 1), len(text) - start)
            while end > start + 1 and text[start:end] not in self._words:
                end -= 1
            words.append(text[start:end])
            start = end
        return words


def load_segmenter(name: str) -> Segmenter:
    """Import the function named "module:function", such as jieba:lcut, with checked output.

    Raises:
        ConfigError: there is no such module or function, it is Python's own, or it does not return
            the words of a sample text.
    """
    segmenter = CheckedSegmenter(name, SEGMENTER.load(name))
    segmenter(SAMPLE)
    return segmenter


class CheckedSegmenter:
    """Segmenter of another package; each result is checked to be the whole text."""

    def __init__(self, name: str, function: Callable[[str], Iterable[str]]) -> None:
        self._name = name
        self._function = function

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the name alone.

        The function may hold a lock, as jieba's does, and locks cannot be pickled.
        """
        return load_segmenter, (self._name,)

    def __call__(self, text: str) -> list[str]:
        """Split a text into words.

        Raises:
            ConfigError: the function failed, or returned no words that add up to the text.
        """
        try:
            returned = self._function(text)
            # A generator, such as that of jieba:cut, runs only here, so it also fails here.
            words = list(returned) if isinstance(returned, Iterable) else [returned]
        except Exception as error:  # another package's function may fail in any way
            raise ConfigError(
                f"{option('segmenter', self._name)}: failed on {text[:40]!r} with "
                f"{type(error).__name__} ({error}). Name a function that takes a text and gives "
                "its words."
            ) from error
        if not all(isinstance(word, str) for word in words):
            raise self._refused(text, returned, "are not texts")
        if "".join(words) != text:
            raise self._refused(text, words, "do not add up to it")
        return [word for word in words if word]

    def _refused(self, text: str, returned: object, reason: str) -> ConfigError:
        return ConfigError(
            f"{option('segmenter', self._name)}: its words of {text[:40]!r} {reason}: "
            f"{str(returned)[:80]}. Name a function that takes a text and gives its words, all "
            "characters kept."
        )

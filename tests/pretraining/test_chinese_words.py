"""Word lists and segmenters: what is a word, and what is refused before anything is trained."""

import pickle
import threading
from functools import partial
from os import system
from subprocess import Popen  # noqa: F401 - found by its name

import pytest
from refusals import refuses

from bertsmith.errors import ConfigError
from bertsmith.pretraining.chinese_words import MaximumMatching, load_segmenter, read_word_list

HERE = __name__


def halves(text):
    return [text[start : start + 2] for start in range(0, len(text), 2)]


def lazily(text):
    yield from ["", *halves(text)]


def without_the_last(text):
    return list(text[:-1])


def numbers(text):
    return [len(text)]


def fails(text):
    raise TypeError("not now")


def fails_lazily(text):
    yield text[:1]
    fails(text)


twice_partial = partial(partial(system))
partly_halves = partial(halves)


class Cutter:
    """As of jieba: it cannot be pickled."""

    def __init__(self):
        self.lock = threading.RLock()

    def cut(self, text):
        with self.lock:
            return halves(text)


method_of_a_cutter = Cutter().cut


def test_the_longest_word_of_a_list_is_taken_from_the_left(tmp_path):
    cut = MaximumMatching(["北京", "北京大学", "大学生", "学生"])
    assert cut("北京大学生在北京") == ["北京大学", "生", "在", "北京"]
    assert cut("") == []
    path = tmp_path / "words.txt"
    path.write_text("﻿北京\n\n 学生 \nword\n", encoding="utf-8")
    assert read_word_list(path)("学生在北京") == ["学生", "在", "北京"]


@pytest.mark.parametrize(("content", "parts"), [
    (b"\xff", ["--word-list {path}: byte 0 is 0xff"]),
    ("北京 34488 ns\n".encode(), ["{path}:1: '北京 34488 ns'"]),
    ("word\n京\n".encode(), ["{path}: ", " 2 ", "--word-list"]),
    (b"", ["--word-list {path}: "]),
    (None, ["--word-list {path}: ", "(No such file"]),
])  # fmt: skip
def test_a_list_that_is_none_is_refused(tmp_path, content, parts):
    path = tmp_path / "words.txt"
    if content is not None:
        path.write_bytes(content)
    parts = [part.format(path=path) for part in parts]
    with refuses(ConfigError, *parts, worded=content is not None):  # the system words that
        read_word_list(path)


@pytest.mark.parametrize("name", ["lazily", "partly_halves", "method_of_a_cutter"])
def test_a_function_becomes_a_segmenter_of_every_process(name):
    segmenter = load_segmenter(f"{HERE}:{name}")
    for each in (segmenter, pickle.loads(pickle.dumps(segmenter))):
        assert each("北京大学生") == ["北京", "大学", "生"]


@pytest.mark.parametrize(("name", "parts"), [
    ("jieba", ["module:function", "jieba:lcut"]),
    ("no_such_package:lcut", ["'no_such_package'", "PYTHONPATH=."]),
    (f"{HERE}:HERE", [": HERE ", f" {HERE}. "]),
    (f"{HERE}:fails_lazily", ["'我们在北京学习语言'", "TypeError (not now)"]),
    (f"{HERE}:Popen", [": subprocess ", "jieba:lcut"]),
    (f"{HERE}:twice_partial", [": posix ", "jieba:lcut"]),
    (f"{HERE}:without_the_last", ["'我们在北京学习语言'", "'习', '语']"]),
    (f"{HERE}:numbers", ["'我们在北京学习语言'", "[9]"]),
])  # fmt: skip
def test_what_is_no_segmenter_is_refused(name, parts):
    worded = "PYTHONPATH=." not in parts  # Python words that
    with refuses(ConfigError, f"--segmenter {name}: ", *parts, worded=worded):
        load_segmenter(name)


def test_a_module_that_raises_an_error_is_refused_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "broken_cutter.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with refuses(ConfigError, "--segmenter broken_cutter:cut: ", "ZeroDivisionError", worded=False):
        load_segmenter("broken_cutter:cut")

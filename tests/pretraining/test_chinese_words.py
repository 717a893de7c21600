"""Word lists and segmenters: what is a word, and what is refused before anything is trained."""

import pickle
import re
import threading
from functools import partial
from os import system
from subprocess import Popen  # noqa: F401 - found by its name

import pytest

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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", "--word-list {path}: byte 0 is 0xff"),
        ("北京 34488 ns\n".encode(), "words.txt:1: '北京 34488 ns'"),
        ("word\n京\n".encode(), "none of its 2 words"),
        (b"", "nothing in it"),
        (None, "--word-list {path}: cannot be read (No such file"),
    ],
)
def test_a_list_that_is_none_is_refused(tmp_path, content, message):
    path = tmp_path / "words.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=re.escape(message.format(path=path))):
        read_word_list(path)


@pytest.mark.parametrize("name", ["lazily", "partly_halves", "method_of_a_cutter"])
def test_a_function_becomes_a_segmenter_of_every_process(name):
    segmenter = load_segmenter(f"{HERE}:{name}")
    for each in (segmenter, pickle.loads(pickle.dumps(segmenter))):
        assert each("北京大学生") == ["北京", "大学", "生"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("jieba", "wanted is module:function"),
        ("no_such_package:lcut", "No module named 'no_such_package'"),
        (f"{HERE}:HERE", "HERE is no function"),
        (f"{HERE}:fails_lazily", "failed on '我们在北京学习语言' with TypeError (not now)"),
        (f"{HERE}:Popen", "subprocess is a module of Python itself"),
        (f"{HERE}:twice_partial", "posix is a module of Python itself"),
        (f"{HERE}:without_the_last", "do not add up to it"),
        (f"{HERE}:numbers", "are not texts"),
    ],
)
def test_what_is_no_segmenter_is_refused(name, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as error:
        load_segmenter(name)
    assert str(error.value).startswith(f"--segmenter {name}: ")

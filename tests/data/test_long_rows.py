"""Rows that are too long to be held: refused by every reader, whatever the file's size."""

import gzip

import pytest
from memory_peak import peak
from refusals import refuses

from bertsmith.data import conll, json_stream, lines, table_texts, tables, text_files
from bertsmith.data.documents import iter_documents
from bertsmith.data.examples import ExampleReader
from bertsmith.data.multiple_choice import ChoiceReader
from bertsmith.data.predictions import read_answers
from bertsmith.data.squad import QuestionReader
from bertsmith.data.tagged_files import TaggedReader
from bertsmith.errors import BertsmithError
from bertsmith.pretraining.chinese_words import read_word_list

LIMIT = 1000
LONG = "word " * 300
OPEN_TEXT = f'{{"text": "{LONG}'
MANY_LINES = "text,label\n" + '"a\n",' * 300

READERS = {
    "csv": (lambda path: list(ExampleReader(path)), "a.csv", f"text,label\n{LONG},1\n"),
    "tsv": (lambda path: list(ExampleReader(path)), "a.tsv", f"text\tlabel\n{LONG}\t1\n"),
    "jsonl": (lambda path: list(ExampleReader(path)), "a.jsonl", OPEN_TEXT),
    "txt": (lambda path: list(ExampleReader(path, labelled=False)), "a.txt", LONG),
    "choices": (lambda path: list(ChoiceReader(path)), "a.csv", f"prompt,choices,label\n{LONG}"),
    "questions": (lambda path: list(QuestionReader(path)), "a.json", f'{{"data": ["{LONG}'),
    "words": (lambda path: list(TaggedReader(path)), "a.conll", f"{LONG} O\n"),
    "sentence": (lambda path: list(TaggedReader(path)), "a.conll", "word O\n" * 300),
    "answers": (read_answers, "a.json", f'{{"id": "{LONG}'),
    "word list": (read_word_list, "a.txt", "北京" * 600),
    "jsonl in a corpus": (lambda path: list(iter_documents([path])), "a.jsonl", OPEN_TEXT),
    "many lines in a corpus": (lambda path: list(iter_documents([path])), "a.csv", MANY_LINES),
}


@pytest.fixture
def low_limits(monkeypatch):
    for module in (text_files, tables, conll, table_texts, lines):
        monkeypatch.setattr(module, "MAX_ROW_BYTES", LIMIT)
    monkeypatch.setattr(json_stream, "MAX_VALUE", LIMIT)
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 100)


@pytest.mark.parametrize("name", READERS)
def test_a_row_beyond_the_limit(tmp_path, low_limits, name):
    read, file, content = READERS[name]
    path = tmp_path / file
    path.write_text(content)
    with refuses(BertsmithError, f"{path}:", "1,000"):
        read(path)


def test_the_memory_of_a_line_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "MAX_ROW_BYTES", 2**20)
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"a word of it and  " * 2**20, 1))  # 19 MB

    def read():
        with refuses(BertsmithError, "a.txt.gz:1:", "1,048,576 bytes"):
            list(ExampleReader(path, labelled=False))

    assert peak(read) < 2**23

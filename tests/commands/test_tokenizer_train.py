"""`bertsmith tokenizer train` as typed: what it writes, prints and refuses."""

import json
import shlex

import pytest
from folders import contents
from tokenizers import Tokenizer as LibraryTokenizer

from bertsmith.data.corpus import Corpus
from bertsmith.tokenization.auto import load_tokenizer

TEXT = "\n\n".join(
    f"The {noun} of the {noun}s is a {noun}. Nothing is unknown here, {number} times."
    for number, noun in enumerate(["cat", "river", "letter", "matter", "winter", "table"] * 20)
)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def train(bertsmith):
    return lambda *words: bertsmith("tokenizer", "train", *words)


@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe", "unigram"])
def test_a_tokenizer_of_each_kind_is_learnt_and_opens_everywhere(
    train, refused, kind, text, tmp_path
):
    out, size = tmp_path / "new" / "tokenizer", 110 if kind == "wordpiece" else 300
    words = [text, "--kind", kind, "--vocab-size", size, "--out", out, "--held-out-share", 0.2]
    printed = train(*words)
    ours = load_tokenizer(out)
    theirs = LibraryTokenizer.from_file(str(out / "tokenizer.json"))
    assert ours.vocab_size == theirs.get_vocab_size() <= size
    for sentence in ("The rivers matter", "Winter 12, é"):
        assert ours.encode(sentence).ids == theirs.encode(sentence).ids
    assert f"{out}: {ours.vocab_size} tokens" in printed
    assert "tokens per word" in printed
    assert "--overwrite" in refused("tokenizer", "train", *words)
    assert load_tokenizer(out).fingerprint == ours.fingerprint
    train(*words, "--overwrite")
    if kind != "unigram":  # the library learns other unigrams each time
        assert load_tokenizer(out).fingerprint == ours.fingerprint


def test_a_refusal_leaves_what_was_there(train, refused, text, tmp_path):
    out, thesis, bad = tmp_path / "out", tmp_path / "thesis", tmp_path / "bad.txt"
    train(text, "--out", out, "--vocab-size", 110, "--no-compare")
    thesis.mkdir()
    (thesis / "thesis.doc").write_text("years of work")
    bad.write_bytes(b"fine\n\n\xff\n")
    before = contents(tmp_path)
    for file, where, more, words in (
        (text, out, ("--vocab-size", 20), "--vocab-size: 20 "),
        (text, thesis, (), "(thesis.doc)"),
        (text, text, (), f"{text}: "),
        (text, out, ("--kind", "byte-bpe", "--vocab-size", 200), " 261."),
        (bad, out, (), f"{bad}:3: "),
        (tmp_path / "absent.txt", out, (), "absent.txt: "),
    ):
        message = refused("tokenizer", "train", file, "--out", where, "--overwrite", *more)
        assert words in message
    assert contents(tmp_path) == before


def test_the_next_step_reads_the_same_texts(train, bertsmith, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [json.dumps({"body": text}) for text in TEXT.split("\n\n")]
    (tmp_path / "-rows.jsonl").write_text("\n".join([*rows, "{"]), encoding="utf-8")
    reading = ("--text-column", "body", "--errors", "skip")
    printed = train("./-rows.jsonl", *reading, "--vocab-size", 110, "--out", "./-tokenizer")
    step = shlex.split(printed.splitlines()[-1])
    assert step[:4] == ["next", "bertsmith", "corpus", "build"]
    bertsmith(*step[2:], "--held-out", 0, "--processes", 1)
    assert Corpus.open(tmp_path / "runs" / "corpus").num_documents == 120


def test_case_is_kept_in_a_unigram_vocabulary_on_request(train, text, tmp_path):
    options = [text, "--kind", "unigram", "--vocab-size", 120, "--held-out-share", 0]
    train(*options, "--out", tmp_path / "small")
    train(*options, "--out", tmp_path / "large", "--no-lowercase")
    small, large = (load_tokenizer(tmp_path / name) for name in ("small", "large"))
    assert small.encode("The").ids == small.encode("the").ids
    assert large.encode("The").ids != large.encode("the").ids


def test_what_was_skipped_is_in_the_json(train, text, tmp_path):
    (tmp_path / "empty.jsonl").write_text('{"text": ""}\n')
    words = (tmp_path / "empty.jsonl", "--vocab-size", 110, "--no-compare", "--json")
    report = json.loads(train(text, *words, "--out", tmp_path / "out"))
    assert report["learning"]["skipped"] == {"empty_documents": 1}

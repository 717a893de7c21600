"""Building a corpus: the ids are the text's, the same from any number of processes, or nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from itertools import pairwise

import numpy as np
import pytest
from folders import contents
from refusals import refuses
from tiny_tokenizers import tiny_byte_bpe, tiny_unigram, tiny_wordpiece

from bertsmith.data import corpus_build as corpus_module
from bertsmith.data import encoding
from bertsmith.data.corpus import Corpus
from bertsmith.data.corpus_build import build_corpus
from bertsmith.data.documents import TextsInMemory
from bertsmith.data.manifest import SPLITS, Manifest
from bertsmith.data.settings import CorpusSettings
from bertsmith.errors import CorpusError, InputError
from bertsmith.system.processes import LocalProcesses
from bertsmith.tokenization.added_tokens import AddedToken
from bertsmith.tokenization.wordpiece import WordPieceTokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCAB = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat"),
    *(LETTERS + ".,!?[]<>/0123456789猫坐在垫子上。！"),
    *(f"##{letter}" for letter in LETTERS + "0123456789"),
]
TEXTS = [
    "The cat sat on the mat. It was Mr. Cat's mat!\nA second paragraph.",
    "猫坐在垫子上。猫！",
    "The [MASK] says [SEP] and [UNK].",
    *(f"Document {n} has {n % 7} sentences. " + "The cat sat. " * (n % 7) + "!" for n in range(40)),
]


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(VOCAB)


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n\n".join(TEXTS))
    return path


def documents_of(folder):
    found = Counter()
    for split in SPLITS:
        corpus = Corpus.open(folder, split)
        for start, end in pairwise(corpus.sentence_starts[corpus.document_starts]):
            found[tuple(corpus.token_ids(start, end).tolist())] += 1
    return found


def test_the_corpus_holds_the_ids_of_the_texts(tmp_path, texts, tokenizer):
    manifest = build_corpus([texts], tokenizer, tmp_path / "out")
    literal = [text.replace("[", "[ ") for text in TEXTS]
    assert documents_of(tmp_path / "out") == Counter(
        tuple(tokenizer.encode_ids(text)) for text in literal
    )
    train, held_out = (Corpus.open(tmp_path / "out", split) for split in SPLITS)
    assert held_out.num_documents >= 1
    assert train.num_documents + held_out.num_documents == len(TEXTS)
    assert train.tokenizer().fingerprint == tokenizer.fingerprint == train.tokenizer_fingerprint
    assert train.vocab_size == tokenizer.vocab_size
    for corpus in (train, held_out):
        ids = corpus.token_ids(0, corpus.num_tokens)
        part = manifest.splits[corpus.split]
        assert part.unknown_tokens == np.count_nonzero(ids == tokenizer.unk_id)
    assert sum(part.characters for part in manifest.splits.values()) == sum(map(len, TEXTS))
    assert train.num_bytes + held_out.num_bytes == sum(len(text.encode()) for text in TEXTS)


def test_special_tokens_that_are_found_in_normalized_text_are_words(tmp_path):
    added = [AddedToken(token, normalized=True, lstrip=True) for token in VOCAB[:5]]
    tokenizer = WordPieceTokenizer(VOCAB, added_tokens=added)
    text = "The [mask] sat[Mask]on the [M\u00c1SK] mat [sep][sep] [MASK]"
    assert tokenizer.encode_ids(text).count(tokenizer.mask_id) == 4
    (tmp_path / "texts.txt").write_text("\n\n".join([text, *TEXTS]), encoding="utf-8")
    build_corpus([tmp_path / "texts.txt"], tokenizer, tmp_path / "out")
    documents = documents_of(tmp_path / "out")
    assert tuple(tokenizer.encode_ids(text.replace("[", "[ "))) in documents
    special_ids = tokenizer.special_ids - {tokenizer.unk_id}
    assert all(special_ids.isdisjoint(ids) for ids in documents)


MULTIBYTE = [f"漢字 café {number} é ü, the sea." for number in range(30)]


@pytest.mark.parametrize("tokenizer", [
    tiny_wordpiece(strip_accents=False), tiny_byte_bpe(), tiny_unigram(steps=()),
])  # fmt: skip
def test_the_bytes_of_a_split_are_those_of_its_texts(tmp_path, tokenizer):
    (tmp_path / "texts.txt").write_text("\n\n".join(MULTIBYTE), encoding="utf-8")
    build_corpus([tmp_path / "texts.txt"], tokenizer, tmp_path / "out")
    corpora = [Corpus.open(tmp_path / "out", split) for split in SPLITS]
    assert all(corpus.num_bytes for corpus in corpora)
    assert sum(corpus.num_bytes for corpus in corpora) == len("".join(MULTIBYTE).encode())


def test_characters_that_the_tokens_do_not_hold_count_as_one_byte(tmp_path):
    (tmp_path / "texts.txt").write_text("\n\n".join(MULTIBYTE), encoding="utf-8")
    build_corpus([tmp_path / "texts.txt"], tiny_wordpiece(), tmp_path / "out")
    total = sum(Corpus.open(tmp_path / "out", split).num_bytes for split in SPLITS)
    plain = "".join(MULTIBYTE).replace("é", "e").replace("ü", "u")  # as the tokenizer reads them
    assert total == len(plain.encode())


def test_processes_and_the_order_of_paths_change_nothing(tmp_path, texts, tokenizer, monkeypatch):
    monkeypatch.setattr(encoding, "PARTITION_BYTES", 101)
    monkeypatch.setattr(corpus_module, "BLOCK_CHARS", 101)
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"text": "The mat. On the mat."}) + "\n")
    settings = CorpusSettings(held_out=0.01, shard_tokens=53)
    for paths, name, processes in (([texts, other], "one", 1), ([other, texts], "two", 2)):
        executor = LocalProcesses(processes)
        build_corpus(paths, tokenizer, tmp_path / name, settings, executor=executor)
    one = contents(tmp_path / "one")
    assert one == contents(tmp_path / "two")
    assert "train-00003.ids.npy" in one


def test_names_that_are_not_utf8(tmp_path, tokenizer):
    path, out = (tmp_path / os.fsdecode(name) for name in (b"a\xff.txt", b"out\xff"))
    path.write_text("the cat\n\nthe mat")
    build_corpus([path], tokenizer, out)
    assert Manifest.read(out).settings["files"] == [str(path)]
    assert Corpus.open(out).tokenizer().fingerprint == tokenizer.fingerprint


def test_what_is_left_out_is_in_the_manifest(tmp_path, tokenizer):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"good\n\nb\xffd\n\n\x01\x02\n\ngood too\n\ngood\n\ngood")
    (folder / "a.pdf").write_bytes(b"%PDF")
    (folder / "b.jsonl").write_text('{"text": ""}\n{"text": "\\ud7ff\\ufffd"}\n')
    settings = CorpusSettings(errors="skip", deduplicate=True)
    manifest = build_corpus([folder], tokenizer, tmp_path / "out", settings)
    assert manifest.sources.skipped == {
        "control_only_documents": 2, "duplicate_documents": 2, "empty_documents": 1,
        "invalid_utf8": 1, "unsupported_files": 1,
    }  # fmt: skip
    assert sum(part.documents for part in manifest.splits.values()) == 2
    (tmp_path / "c.txt").write_text("the cat\n\nthe mat")
    unique = build_corpus([tmp_path / "c.txt"], tokenizer, tmp_path / "unique", settings)
    assert unique.sources.skipped == {}


def test_bad_input_leaves_the_earlier_corpus(tmp_path, texts, tokenizer):
    out = tmp_path / "out"
    build_corpus([texts], tokenizer, out)
    before = contents(tmp_path)
    with refuses(CorpusError, f"{out}:", "--out", "--overwrite"):
        build_corpus([texts], tokenizer, out)
    for content, parts in (
        (b"fine\n\nb\xffd", ["bad.txt:3:", "0xff", "byte 7", "--errors skip"]),
        (b"\x01\n\n\x02", ["bad.txt:", "files read: 1", "2 documents of control characters alone"]),
        (b"", ["bad.txt:", "--errors skip"]),
    ):
        bad = tmp_path / "bad.txt"
        bad.write_bytes(content)
        with refuses(InputError, *parts):
            build_corpus([bad], tokenizer, out, overwrite=True)
        bad.unlink()
    assert contents(tmp_path) == before
    build_corpus([texts], tokenizer, out, overwrite=True)
    assert contents(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "texts.txt"]


BUILD = """
import sys
import time
from pathlib import Path
from bertsmith.data.corpus_build import build_corpus
from bertsmith.data.documents import TextsInMemory
from bertsmith.system.processes import LocalProcesses
from bertsmith.tokenization.auto import load_tokenizer
class Telling(LocalProcesses):
    def map_in_order(self, work, items):
        for number, result in enumerate(super().map_in_order(work, items)):
            if number == 0:
                print("started", flush=True)
            else:
                time.sleep(0.3)  # the rest takes long enough to be interrupted
            yield result
if __name__ == "__main__":
    source, vocab, out = map(Path, sys.argv[1:])
    build_corpus([source], load_tokenizer(vocab), out, executor=Telling(2))
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupt_leaves_no_corpus_and_no_process(tmp_path, tokenizer, sent):
    tokenizer.save(tmp_path / "vocab")
    (tmp_path / "a.txt").write_text(("The cat sat on the mat. " * 30_000 + "\n\n") * 12)
    paths = [str(tmp_path / name) for name in ("a.txt", "vocab", "out")]
    with subprocess.Popen(
        [sys.executable, "-c", BUILD, *paths], start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == b"started\n"
        if sent == signal.SIGINT:
            os.killpg(process.pid, sent)  # as the terminal does: all processes get it
        else:
            process.send_signal(sent)
        process.wait(timeout=600)
    # A killed process leaves the empty folder that it held; the next build takes it.
    assert not list(tmp_path.glob("out/*"))
    if sent == signal.SIGINT:
        assert not (tmp_path / "out").exists() and not list(tmp_path.glob("*.tmp"))
    deadline = time.monotonic() + 120
    with suppress(ProcessLookupError):  # which says that none is left of the group
        while time.monotonic() < deadline:
            os.killpg(process.pid, 0)
            time.sleep(0.05)
        pytest.fail("a process is still there")


@pytest.mark.parametrize("name", ["manifest.json", "train-00000.ids.npy"])
def test_pointers_of_git_lfs_are_named(tmp_path, texts, tokenizer, name):
    build_corpus([texts], tokenizer, tmp_path / "out", executor=LocalProcesses(1))
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 9\n"
    (tmp_path / "out" / name).write_text(pointer)
    with refuses(CorpusError, "git lfs pull") as caught:
        Corpus.open(tmp_path / "out")
    assert str(caught.value).startswith(f"{tmp_path / 'out' / name} is a pointer of Git LFS")


@pytest.mark.parametrize("share", [0.01, 0.5])
@pytest.mark.parametrize("first", [True, False])
def test_documents_without_tokens_take_no_place_in_a_split(tmp_path, tokenizer, share, first):
    """A lone accent is visible, but BERT's normalization drops it."""
    texts = [f"document {number}" for number in range(2)]
    empty = ["\u0301", "\u0301\u0316"]
    texts = [*empty, *texts] if first else [texts[0], *empty, texts[1]]
    settings = CorpusSettings(held_out=share)
    manifest = build_corpus(TextsInMemory(lambda: texts), tokenizer, tmp_path / "out", settings)
    documents = {split: counts.documents for split, counts in manifest.splits.items()}
    assert documents == {"train": 1, "held_out": 1}
    assert manifest.sources.skipped == {"documents_without_tokens": 2}

"""Building a corpus: the ids are the text's, the same from any number of processes, or nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from bertsmith.data import corpus as corpus_module
from bertsmith.data import encoding
from bertsmith.data.corpus import CorpusSettings, build_corpus
from bertsmith.data.documents import iter_documents
from bertsmith.data.encoding import Encoder
from bertsmith.data.manifest import SPLITS, Manifest
from bertsmith.data.shards import Corpus
from bertsmith.errors import ConfigError, CorpusError, InputError
from bertsmith.system.processes import LocalProcesses
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.tokenizer import Tokenizer
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
def tokenizer() -> Tokenizer:
    return WordPieceTokenizer(VOCAB)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n\n".join(TEXTS))
    return path


def documents_of(folder: Path) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    for split in SPLITS:
        corpus = Corpus.open(folder, split)
        starts = corpus.sentence_starts[corpus.document_starts]
        for start, end in pairwise(starts):
            found[tuple(corpus.token_ids(start, end).tolist())] += 1
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_corpus_holds_the_ids_of_the_texts(
    tmp_path: Path, texts: Path, tokenizer: Tokenizer
) -> None:
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


def test_ids_are_clean_even_where_the_text_names_special_tokens(tokenizer: Tokenizer) -> None:
    block = Encoder(tokenizer).encode(["[CLS] the [MASK][SEP] [PAD]"])
    assert not {tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id, tokenizer.mask_id} & set(
        block.ids.tolist()
    )
    assert tokenizer.decode(block.ids.tolist()).replace(" ", "") == "[cls]the[mask][sep][pad]"


def test_sentence_bounds_are_those_of_the_sentences(
    tmp_path: Path, texts: Path, tokenizer: Tokenizer
) -> None:
    build_corpus([texts], tokenizer, tmp_path / "out", CorpusSettings(held_out=0))
    corpus = Corpus.open(tmp_path / "out")
    sentences = [
        tokenizer.decode(corpus.token_ids(*corpus.sentence_starts[i : i + 2]).tolist())
        for i in range(*corpus.document_starts[:2])
    ]
    assert sentences == [
        "the cat sat on the mat.",
        "it was mr. cat [UNK] s mat!".replace("[UNK] ", ""),
        "a second paragraph.",
    ]


@pytest.mark.parametrize("held_out", [0.01, 0.3])
def test_the_number_of_processes_and_the_order_of_paths_change_nothing(
    tmp_path: Path,
    texts: Path,
    tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
    held_out: float,
) -> None:
    monkeypatch.setattr(encoding, "PARTITION_BYTES", 101)
    monkeypatch.setattr(corpus_module, "BLOCK_CHARS", 101)
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"text": "The mat. On the mat."}) + "\n")
    settings = CorpusSettings(held_out=held_out, shard_tokens=53)
    build_corpus([texts, other], tokenizer, tmp_path / "one", settings, executor=LocalProcesses(1))
    build_corpus([other, texts], tokenizer, tmp_path / "two", settings, executor=LocalProcesses(2))
    one = contents(tmp_path / "one")
    assert one == contents(tmp_path / "two")
    assert "train-00003.ids.npy" in one


@pytest.mark.parametrize("name", ["enwiki/valid.txt", "zhwiki/valid.txt"])
def test_real_text_is_encoded_whole(data_dir: Path, name: str) -> None:
    tokenizer = load_tokenizer(data_dir / "vocabs" / "bert-base-multilingual-cased")
    texts = [document.text for document in iter_documents([data_dir / name])]
    block = Encoder(tokenizer).encode(texts)
    assert block.ids.tolist() == [id_ for text in texts for id_ in tokenizer.encode_ids(text)]
    assert len(block.document_lengths) == len(texts) == 100
    assert [d.ids.tolist() for d in block.documents()] == list(map(tokenizer.encode_ids, texts))


def test_names_that_are_not_utf8(tmp_path: Path, tokenizer: Tokenizer) -> None:
    path, out = (tmp_path / os.fsdecode(name) for name in (b"a\xff.txt", b"out\xff"))
    path.write_text("the cat\n\nthe mat")
    build_corpus([path], tokenizer, out)
    assert Manifest.read(out).settings["files"] == [str(path)]
    assert Corpus.open(out).tokenizer().fingerprint == tokenizer.fingerprint


def test_equal_documents_can_be_left_out(tmp_path: Path, tokenizer: Tokenizer) -> None:
    path = tmp_path / "a.txt"
    path.write_text("the cat\n\nthe mat\n\nthe cat\n\nthe cat\n\non")
    kept = build_corpus([path], tokenizer, tmp_path / "kept")
    left_out = build_corpus(
        [path],
        tokenizer,
        tmp_path / "out",
        CorpusSettings(deduplicate=True),
    )
    assert sum(part.documents for part in kept.splits.values()) == 5
    assert sum(part.documents for part in left_out.splits.values()) == 3
    assert left_out.sources.skipped == {"duplicate_documents": 2}


def test_what_is_skipped_is_in_the_manifest(tmp_path: Path, tokenizer: Tokenizer) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"good\n\nb\xffd\n\n\x01\x02\n\ngood too")
    (folder / "a.pdf").write_bytes(b"%PDF")
    (folder / "b.jsonl").write_text('{"text": ""}\n{"text": "\\ud7ff\\ufffd"}\n')
    manifest = build_corpus(
        [folder],
        tokenizer,
        tmp_path / "out",
        CorpusSettings(errors="skip"),
    )
    assert manifest.sources.skipped == {
        "control_only_documents": 2,
        "empty_documents": 1,
        "invalid_utf8": 1,
        "unsupported_files": 1,
    }
    assert sum(part.documents for part in manifest.splits.values()) == 2


def test_bad_input_leaves_the_earlier_corpus(
    tmp_path: Path, texts: Path, tokenizer: Tokenizer
) -> None:
    out = tmp_path / "out"
    build_corpus([texts], tokenizer, out)
    before = contents(tmp_path)
    with pytest.raises(CorpusError, match=r"a corpus is there already.*--overwrite"):
        build_corpus([texts], tokenizer, out)
    bad = tmp_path / "bad"
    bad.mkdir()
    for name, content in {"a.txt": b"fine\n\nb\xffd", "b.txt": b"\x01\x02", "c.txt": b""}.items():
        (bad / name).write_bytes(content)
        with pytest.raises(InputError):
            build_corpus([bad / name], tokenizer, out, overwrite=True)
        (bad / name).unlink()
    bad.rmdir()
    assert contents(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "texts.txt"]
    build_corpus([texts], tokenizer, out, overwrite=True)
    assert contents(tmp_path) == before


def test_nothing_but_a_corpus_is_replaced(
    tmp_path: Path, texts: Path, tokenizer: Tokenizer
) -> None:
    for out, kind in ((tmp_path, "folder"), (texts, "file")):
        with pytest.raises(CorpusError, match=f"a {kind} .*is there already"):
            build_corpus([texts], tokenizer, out, overwrite=True)
    (tmp_path / "empty").mkdir()
    build_corpus([texts], tokenizer, tmp_path / "empty")


def test_no_document_at_all_is_an_error(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "a.txt").write_bytes(b"\x01\n\n\x02")
    with pytest.raises(InputError, match=r"no document found \(skipped: 2 control_only_documents"):
        build_corpus([tmp_path / "a.txt"], tokenizer, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "change",
    [{"held_out": 1.0}, {"held_out": -0.1}, {"shard_tokens": 0}, {"shard_tokens": 2**31 + 1}],
)
def test_settings_that_cannot_be_met(change: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="allowed is"):
        CorpusSettings(**change)  # type: ignore[arg-type]


class EndsItsProcess(WordPieceTokenizer):
    def encode_batch_ids(self, texts):  # type: ignore[no-untyped-def]
        os.kill(os.getpid(), signal.SIGKILL)

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return EndsItsProcess, (VOCAB,)


def test_a_worker_that_dies_leaves_no_corpus(
    tmp_path: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "PARTITION_BYTES", 100)
    with pytest.raises(ConfigError, match="a worker process was killed"):
        build_corpus([texts], EndsItsProcess(VOCAB), tmp_path / "out", executor=LocalProcesses(2))
    assert not (tmp_path / "out").exists()


BUILD = """
import sys
from pathlib import Path
from bertsmith.data.corpus import build_corpus
from bertsmith.system.processes import LocalProcesses
from bertsmith.tokenization.tokenizer import Tokenizer
if __name__ == "__main__":
    source, vocab, out = map(Path, sys.argv[1:])
    said = []
    def say(report):
        if not said:
            said.append(print("started", flush=True))
    build_corpus([source], load_tokenizer(vocab), out, executor=LocalProcesses(2), on_progress=say)
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupt_leaves_no_corpus_and_no_process(
    tmp_path: Path, tokenizer: Tokenizer, sent: signal.Signals
) -> None:
    tokenizer.save(tmp_path / "vocab")
    (tmp_path / "a.txt").write_text(("The cat sat on the mat. " * 30_000 + "\n\n") * 60)
    paths = [str(tmp_path / name) for name in ("a.txt", "vocab", "out")]
    with subprocess.Popen(
        [sys.executable, "-c", BUILD, *paths],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"started\n"
        if sent == signal.SIGINT:
            os.killpg(process.pid, sent)  # as the terminal does: all processes get it
        else:
            process.send_signal(sent)
        process.wait(timeout=300)
    # A killed process leaves the empty folder that it held; the next build takes it.
    assert not list(tmp_path.glob("out/*"))
    assert sent == signal.SIGKILL or not (tmp_path / "out").exists()
    leftovers = [path.name for path in tmp_path.iterdir() if path.suffix == ".tmp"]
    assert sent == signal.SIGKILL or not leftovers
    deadline = time.monotonic() + 120
    while _group_is_alive(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _group_is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True

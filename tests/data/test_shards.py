"""Shards: what is written comes back, and whatever was changed since is found and named."""

import json
import pickle
import shutil
from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest
from damage import damages, odd_values
from hypothesis import given, settings
from hypothesis import strategies as st
from limits import file_size_limit
from refusals import refuses

from bertsmith.data.corpus import Corpus
from bertsmith.data.manifest import Manifest, SourcesManifest, TokenizerManifest
from bertsmith.data.shards import DocumentBlock, SplitWriter, id_dtype
from bertsmith.errors import CorpusError

documents = st.lists(
    st.lists(st.lists(st.integers(0, 70_000), min_size=1, max_size=9), min_size=1, max_size=5),
    max_size=20,
)
EXAMPLE = [[[5, 6, 7], [8]], [[9, 10]], [[11], [12], [13, 14, 15, 16, 17]]]


def make_block(docs):
    sentences = [sentence for document in docs for sentence in document]
    return DocumentBlock(
        ids=np.array([id_ for sentence in sentences for id_ in sentence], np.uint32),
        sentence_lengths=np.array([len(sentence) for sentence in sentences], np.int32),
        document_lengths=np.array([len(document) for document in docs], np.int32),
        unknown_tokens=sum(sentence.count(1) for sentence in sentences),
        characters=10 * len(docs),
    )


def write(folder, docs, vocab_size=70001, shard_tokens=6):
    writers = {name: SplitWriter(folder, name, vocab_size, shard_tokens) for name in SPLIT_NAMES}
    for document in docs:
        writers["train"].add(make_block([document]))
    writers["held_out"].add(make_block(docs[:1]))
    manifest = Manifest(
        tokenizer=TokenizerManifest("f" * 64, vocab_size),
        splits={name: writer.finish() for name, writer in writers.items()},
        sources=SourcesManifest(1, 2, len(docs), {}, {}),
        settings={"held_out": 0.01},
    )
    manifest.write(folder)
    assert Manifest.read(folder) == manifest


SPLIT_NAMES = ("train", "held_out")


def read(corpus):
    return [
        [
            corpus.token_ids(*corpus.sentence_starts[sentence : sentence + 2]).tolist()
            for sentence in range(*corpus.document_starts[document : document + 2])
        ]
        for document in range(corpus.num_documents)
    ]


@settings(max_examples=15)
@given(documents)
def test_documents_come_back_and_none_spans_two_shards(tmp_path_factory, docs):
    folder = tmp_path_factory.getbasetemp() / "corpus"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    write(folder, docs)
    corpus = Corpus.open(folder)
    assert read(corpus) == docs
    assert read(pickle.loads(pickle.dumps(corpus))) == docs
    lengths = [len(sentence) for document in docs for sentence in document]
    assert corpus.num_documents == len(docs) == len(corpus.document_starts) - 1
    assert corpus.num_sentences == len(lengths) == len(corpus.sentence_starts) - 1
    assert corpus.num_tokens == sum(lengths) == corpus.sentence_starts[-1]
    ids = [id_ for document in docs for sentence in document for id_ in sentence]
    counts = np.bincount(np.array(ids, int), minlength=corpus.vocab_size)
    assert corpus.count_tokens().tolist() == counts.tolist()
    longest = max((sum(map(len, document)) for document in docs), default=0)
    assert all(shard.tokens < 6 + longest for shard in corpus.manifest.splits["train"].shards)
    for start, end in pairwise(corpus.sentence_starts[corpus.document_starts]):
        assert len(corpus.token_ids(start, end)) == end - start  # inside one shard


@pytest.mark.parametrize(("vocab_size", "expected"), [(65_536, "uint16"), (65_537, "uint32")])
def test_files_are_standard_and_as_small_as_the_vocabulary_allows(tmp_path, vocab_size, expected):
    write(tmp_path, EXAMPLE, vocab_size, shard_tokens=1000)
    ids = np.load(tmp_path / "train-00000.ids.npy", mmap_mode="r")
    assert ids.dtype == id_dtype(vocab_size) == expected
    assert ids.tolist() == list(range(5, 18))
    assert np.load(tmp_path / "train-00000.sentences.npy").tolist() == [0, 3, 4, 6, 7, 8, 13]
    assert np.load(tmp_path / "train-00000.documents.npy").tolist() == [0, 2, 3, 6]


@pytest.mark.parametrize("file", ["train-00000.ids", "train-00001.documents"])
def test_an_altered_shard_is_named(tmp_path, file):
    write(tmp_path, EXAMPLE)
    path = tmp_path / f"{file}.npy"
    content = path.read_bytes()
    for damaged, part in (
        (content[:-1] + bytes([content[-1] ^ 1]), "SHA-256"),
        (content[:-2], f"{len(content) - 2:,} bytes"),
        (b"x" * len(content), "cannot be read"),
    ):
        path.write_bytes(damaged)
        with refuses(CorpusError, f"{path.name}:", part, "corpus build", worded="bytes" in part):
            Corpus.open(tmp_path, verify=part == "SHA-256")
    path.unlink()
    with refuses(CorpusError, f"{path.name}: missing", "corpus build", worded=False):
        Corpus.open(tmp_path)
    Corpus.open(tmp_path, "held_out")  # untouched


def test_random_damage_is_named_or_changes_no_document(tmp_path):
    write(tmp_path, EXAMPLE)
    for path in sorted(tmp_path.iterdir()):
        content = path.read_bytes()
        for damaged in damages(content, 12):
            path.write_bytes(damaged)
            try:
                corpora = [Corpus.open(tmp_path, split) for split in SPLIT_NAMES]
            except CorpusError as error:
                assert str(tmp_path) in str(error) and "\n" not in str(error)
            else:
                assert path.suffix == ".json", "a shard's checksum finds any damage"
                assert [read(corpus) for corpus in corpora] == [EXAMPLE, EXAMPLE[:1]]
        path.write_bytes(content)


def test_a_damaged_header_is_told_where_no_checksum_is_compared(tmp_path):
    write(tmp_path, EXAMPLE)
    path = tmp_path / "train-00000.ids.npy"
    content = path.read_bytes()
    for at in range(10, content.index(b"(")):  # behind the format's name and version
        path.write_bytes(content[:at] + b"(" + content[at + 1 :])
        with refuses(CorpusError, f"{path}: ", "corpus build", worded=False):
            Corpus.open(tmp_path, verify=False)


def test_odd_values_in_a_manifest_are_refused_or_change_no_document(tmp_path):
    write(tmp_path, EXAMPLE)
    path = tmp_path / "manifest.json"
    num_refused = 0
    for fields in odd_values(json.loads(path.read_text()), 200):
        path.write_text(json.dumps(fields))
        try:
            corpus = Corpus.open(tmp_path, verify=False)
            corpus.count_tokens()
        except CorpusError as error:
            assert str(tmp_path) in str(error) and "\n" not in str(error)
            num_refused += 1
        else:
            assert read(corpus) == EXAMPLE, fields
    assert num_refused > 100


@pytest.mark.parametrize("content, parts, worded", [
    ("{", ["manifest.json: damaged, not JSON"], False),
    ('{"format": "bertsmith corpus", "format_version": 2}', ["version 2", "version 1"], True),
    ('{"format": "bertsmith corpus", "format_version": 1}', ["damaged at tokenizer"], False),
    (None, ["manifest.json"], True),
])  # fmt: skip
def test_a_manifest_that_cannot_be_read(tmp_path, content, parts, worded):
    if content is not None:
        (tmp_path / "manifest.json").write_text(content)
    with refuses(CorpusError, f"{tmp_path}", *parts, worded=worded):
        Corpus.open(tmp_path)
    with refuses(CorpusError, "missing:", "corpus build"):
        Corpus.open(tmp_path / "missing")
    (tmp_path / "texts.txt").write_text("A text.\n")
    with refuses(CorpusError, "texts.txt: this is a file", "corpus build"):
        Corpus.open(tmp_path / "texts.txt")


def test_a_manifest_names_no_file_of_another_place(tmp_path):
    write(tmp_path, EXAMPLE)
    manifest = tmp_path / "manifest.json"
    fields = json.loads(manifest.read_text())
    fields["splits"]["train"]["shards"][0]["token_ids"]["name"] = "../train-00000.ids.npy"
    manifest.write_text(json.dumps(fields))
    with refuses(CorpusError, "splits.train.shards", "'../train-00000.ids.npy'", " train-00000."):
        Corpus.open(tmp_path)


def test_a_disk_that_is_full_when_a_shard_ends_is_told_as_that(tmp_path):
    """What is buffered reaches the disk only at the end, and closing again changes nothing."""
    with (
        pytest.raises(OSError, match="too large"),
        closing(SplitWriter(tmp_path, "train", 10)) as writer,
        file_size_limit(100),
    ):
        writer.add(make_block([[[1, 2], [3]], [[4]]]))
        writer.finish()

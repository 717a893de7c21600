"""Counting on an executor: the tokenizer of one process, through files merged as a tree."""

import pytest
from folders import contents
from refusals import refuses

from bertsmith.data import work_units
from bertsmith.errors import ConfigError, InputError
from bertsmith.system.processes import LocalProcesses
from bertsmith.vocabulary import cluster_counting
from bertsmith.vocabulary.cluster_counting import COUNTS_DIR
from bertsmith.vocabulary.settings import TokenizerSettings
from bertsmith.vocabulary.train import write_tokenizer

NOUNS = ["cat", "river", "letter", "matter", "winter", "table", "漢字"]


@pytest.fixture
def settings(tmp_path, monkeypatch):
    monkeypatch.setattr(work_units, "MIN_UNIT_BYTES", 100)
    texts = tmp_path / "texts"
    texts.mkdir()
    for name in "ab":
        lines = (f"The {NOUNS[n % 7]}s are {n} {name}." for n in range(99))
        (texts / f"{name}.txt").write_text("\n\n".join(lines))
    return TokenizerSettings(files=(str(texts),), vocab_size=150, processes=1, held_out_share=0.2)


def test_an_executor_trains_the_tokenizer_of_one_process(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_counting, "FILES_AT_ONCE", 3)
    _, _, alone = write_tokenizer(settings, tmp_path / "alone")
    _, _, report = write_tokenizer(settings, tmp_path / "out", executor=LocalProcesses(2))
    assert contents(tmp_path / "out") == contents(tmp_path / "alone")
    assert report.learning == alone.learning and report.stats == alone.stats
    assert report.held_out_documents == alone.held_out_documents > 0
    assert (report.num_words, report.num_distinct_words) == (
        alone.num_words, alone.num_distinct_words,
    )  # fmt: skip


def test_the_most_frequent_words_alone_are_learned_from(settings, tmp_path, monkeypatch):
    monkeypatch.setattr("bertsmith.vocabulary.word_counts.MAX_WORDS", 60)
    reports = [
        write_tokenizer(settings, tmp_path / name, executor=executor)[2]
        for name, executor in (("alone", None), ("out", LocalProcesses(1)))
    ]
    assert contents(tmp_path / "out") == contents(tmp_path / "alone")
    for report in reports:
        assert f"60 most frequent of {report.num_distinct_words}" in report.notes[0]


def test_held_out_files_are_not_counted(settings, tmp_path):
    held_out = str(tmp_path / "texts" / "b.txt")
    apart = TokenizerSettings(
        files=settings.files, held_out=(held_out,), vocab_size=150, processes=1
    )
    _, _, alone = write_tokenizer(apart, tmp_path / "alone")
    _, _, report = write_tokenizer(apart, tmp_path / "out", executor=LocalProcesses(1))
    assert contents(tmp_path / "out") == contents(tmp_path / "alone")
    assert report.learning == alone.learning and report.measuring == alone.measuring


def test_a_killed_command_leaves_counts_that_the_next_one_replaces(settings, tmp_path):
    out = tmp_path / "out"
    (out / COUNTS_DIR).mkdir(parents=True)
    (out / COUNTS_DIR / "learned-0-00000.arrow").write_bytes(b"old")
    write_tokenizer(settings, out, executor=LocalProcesses(1))
    assert COUNTS_DIR not in {path.name for path in out.iterdir()}
    with refuses(ConfigError, f"{out}:", "--overwrite"):
        write_tokenizer(settings, out, executor=LocalProcesses(1))


def test_an_error_leaves_nothing(settings, tmp_path):
    (tmp_path / "texts" / "c.txt").write_bytes(b"good\n\n\xff")
    with refuses(InputError, "c.txt:3"):
        write_tokenizer(settings, tmp_path / "out", executor=LocalProcesses(1))
    assert not (tmp_path / "out").exists()

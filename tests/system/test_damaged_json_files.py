"""Facts that a person or another program has changed: one clear error, never a traceback."""

import json
import shutil

import pytest
import tiny_runs
from refusals import refuses

from bertsmith import cli
from bertsmith.data.corpus import Corpus
from bertsmith.errors import CheckpointError, CorpusError
from bertsmith.training.journal import read_journal

SIZE = [*tiny_runs.SIZE, "--steps", "2"]


@pytest.fixture(scope="module")
def almost_done(corpus_dir, tmp_path_factory):
    """A run that was killed between its last checkpoint and its summary."""
    out = tmp_path_factory.mktemp("runs") / "run"
    cli.main(["pretrain", *SIZE, "--corpus", str(corpus_dir), "--out", str(out)])
    change(out / "run.json", lambda run: run.pop("summary"))
    return out


def change(file, edit):
    facts = json.loads(file.read_text())
    edit(facts)
    file.write_text(json.dumps(facts))


def test_a_changed_run_says_so_where_it_is_resumed(almost_done, corpus_dir, tmp_path, refused):
    for number, (edit, found) in enumerate((
        (lambda run: run.pop("config"), "('config' "),
        (lambda run: run.update(settings=[]), "(settings is []"),
        (lambda run: run.update(summary={"steps": "2"}), '(summary.steps is "2"'),
    )):  # fmt: skip
        out = shutil.copytree(almost_done, tmp_path / str(number))
        change(out / "run.json", edit)
        line = refused("pretrain", *SIZE, "--corpus", corpus_dir, "--out", out, "--resume")
        assert f"{out}/run.json: " in line and found in line


def test_a_changed_journal_says_so_where_its_run_is_resumed(
    almost_done, corpus_dir, tmp_path, refused
):
    out = shutil.copytree(almost_done, tmp_path / "run")
    lines = (out / "journal.jsonl").read_text().splitlines()
    entries = [{**json.loads(line), "loss": "2.5"} for line in lines]
    for entry in entries:
        del entry["crc32"]
    (out / "journal.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    line = refused("pretrain", *SIZE, "--corpus", corpus_dir, "--out", out, "--resume")
    assert f"{out}/journal.jsonl:1: " in line and "'loss' is \"2.5\"" in line


def test_a_line_that_is_none_of_a_journal_is_told(tmp_path):
    for line in ("nonsense", '{"loss": 1}'):
        (tmp_path / "journal.jsonl").write_text(f'{{"step": 1}}\n{line}\n{{"step": 3}}\n')
        with refuses(CheckpointError, "journal.jsonl:2: "):
            read_journal(tmp_path / "journal.jsonl")


def test_a_manifest_with_another_vocabulary(corpus_dir, tmp_path, refused):
    copy = shutil.copytree(corpus_dir, tmp_path / "corpus")
    change(copy / "manifest.json", lambda facts: facts["tokenizer"].update(vocab_size=7))
    found = "manifest.json: tokenizer.vocab_size is 7"
    with refuses(CorpusError, found, f"{copy}/tokenizer has 150 "):
        Corpus.open(copy, verify=False).tokenizer()
    assert found in refused("pretrain", *SIZE, "--corpus", copy, "--out", tmp_path / "run")

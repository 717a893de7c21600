"""`corpus build` on the command line: what it prints, and how it refuses."""

import json
import shlex
from pathlib import Path

import pytest

from bertsmith.cli import main
from bertsmith.commands import pretrain
from bertsmith.data.shards import Corpus
from bertsmith.tokenization.wordpiece import WordPieceTokenizer


@pytest.fixture
def vocab(tmp_path: Path) -> Path:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "."]
    WordPieceTokenizer(tokens).save(tmp_path / "vocab")
    return tmp_path / "vocab"


def build(tmp_path: Path, vocab: Path, *more: str) -> None:
    (tmp_path / "texts").mkdir(exist_ok=True)
    (tmp_path / "texts" / "a.txt").write_text("the cat. the cat sat.\n\nthe dog.\n\n\x01\n")
    options = ["--tokenizer", str(vocab), "--out", str(tmp_path / "out"), "--processes", "1"]
    main(["corpus", "build", str(tmp_path / "texts"), *options, *more])


def test_json_is_one_object_on_standard_output(
    tmp_path: Path, vocab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path, vocab, "--json", "--held-out", "0")
    found = json.loads(capsys.readouterr().out)
    assert found["out"] == str(tmp_path / "out")
    assert found["splits"]["train"]["documents"] == 2
    assert found["splits"]["train"]["unknown_rate"] == pytest.approx(1 / 10)
    assert found["splits"]["held_out"]["documents"] == 0
    assert found["sources"]["skipped"] == {"control_only_documents": 1}
    assert found["settings"]["held_out"] == 0


def test_text_says_what_was_written_and_what_comes_next(
    tmp_path: Path, vocab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path, vocab)
    lines = capsys.readouterr().out.splitlines()
    train = next(line for line in lines if line.startswith("train     1 documents"))
    held_out = next(line for line in lines if line.startswith("held_out  1 documents"))
    assert {train.split(", ")[-1], held_out.split(", ")[-1]} == {
        "7 tokens (0.000% unknown)",
        "3 tokens (33.333% unknown)",
    }
    assert "skipped   1 control only documents" in lines
    program, command, *words = shlex.split(lines[-1].removeprefix("next"))
    assert (program, command) == ("bertsmith", "pretrain")
    pretrain.parse(words, "bertsmith pretrain").training.budget()  # it has a length
    assert Corpus.open(tmp_path / "out", "held_out").num_documents == 1


def test_an_earlier_corpus_is_kept_unless_asked_otherwise(
    tmp_path: Path, vocab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path, vocab)
    with pytest.raises(SystemExit) as caught:
        build(tmp_path, vocab)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "--overwrite" in error
    build(tmp_path, vocab, "--overwrite")


def refused(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


@pytest.mark.parametrize("name", ["notes.txt", "train-00000.ids.npy.bak"])
def test_only_a_corpus_is_overwritten(
    tmp_path: Path, vocab: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path, vocab)
    (tmp_path / "out" / name).write_text("mine")
    words = ["corpus", "build", str(tmp_path / "texts"), "--tokenizer", str(vocab), "--out",
             str(tmp_path / "out"), "--overwrite"]  # fmt: skip
    assert f"out: holds more than a corpus ({name})" in refused(capsys, words)
    assert (tmp_path / "out" / name).read_text() == "mine"


def test_what_is_read_is_not_overwritten(
    tmp_path: Path, vocab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path, vocab)
    mine = tmp_path / "out" / "tokenizer" / "mine.txt"
    mine.write_text("the cat.")
    words = ["corpus", "build", str(mine), "--tokenizer", str(vocab), "--out",
             str(tmp_path / "out"), "--overwrite"]  # fmt: skip
    assert "mine.txt, which is to be read" in refused(capsys, words)
    assert mine.read_text() == "the cat."


def test_texts_of_which_nothing_is_known_are_refused(
    tmp_path: Path, vocab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("今天", encoding="utf-8")
    words = ["corpus", "build", str(tmp_path / "a.txt"), "--tokenizer", str(vocab), "--out",
             str(tmp_path / "out"), "--processes", "1"]  # fmt: skip
    assert "all 2 tokens of the texts are [UNK]" in refused(capsys, words)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", [["--held-out", "2"], ["--processes", "0"]])
def test_impossible_settings_end_with_2(
    tmp_path: Path, vocab: Path, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        build(tmp_path, vocab, *option)
    assert caught.value.code == 2
    assert "allowed" in capsys.readouterr().err

"""`bertsmith tokenizer train` as typed: what it writes, prints and refuses."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer as LibraryTokenizer

from bertsmith.cli import main
from bertsmith.tokenization.auto import load_tokenizer

TEXT = "\n\n".join(
    f"The {noun} of the {noun}s is a {noun}. Nothing is unknown here, {number} times."
    for number, noun in enumerate(["cat", "river", "letter", "matter", "winter", "table"] * 20)
)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def train(*args: object) -> None:
    main(["tokenizer", "train", *map(str, args)])


def refused(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    with pytest.raises(SystemExit) as stop:
        train(*args)
    assert stop.value.code == 2
    return capsys.readouterr().err


def test_writes_a_folder_that_we_and_the_library_open(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "tokenizer"
    train(text, "--vocab-size", 110, "--out", out, "--held-out-share", 0.2)
    printed = capsys.readouterr().out
    ours = load_tokenizer(out)
    theirs = LibraryTokenizer.from_file(str(out / "tokenizer.json"))
    assert ours.vocab_size == theirs.get_vocab_size() == 110
    assert ours.encode("The rivers matter").ids == theirs.encode("The rivers matter").ids
    assert f"{out}: 110 tokens" in printed
    assert "pieces per word" in printed
    assert "tokenizers library" in printed


def test_json_is_one_object_on_standard_output(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held_out = tmp_path / "held_out.txt"
    held_out.write_text(TEXT, encoding="utf-8")
    train(text, "--vocab-size", 110, "--out", tmp_path / "out", "--json", "--held-out", held_out)
    report = json.loads(capsys.readouterr().out)
    assert report["vocab_size"] == 110
    assert report["num_words"] == 120 * 17
    assert report["held_out"]["bertsmith"]["unknown_rate"] < 0.01
    assert report["held_out"]["bertsmith"]["fertility"] >= 1
    assert report["learning"]["documents"] == report["held_out_documents"] == 120
    assert report["settings"]["rule"] == "likelihood"


def test_an_earlier_tokenizer_is_replaced_only_on_request(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    options = [text, "--out", out, "--no-compare", "--vocab-size"]
    train(*options, 110)
    before = (out / "vocab.txt").read_bytes()
    assert "Pass --overwrite" in refused(capsys, *options, 105)
    assert (out / "vocab.txt").read_bytes() == before
    train(*options, 105, "--overwrite")
    assert load_tokenizer(out).vocab_size == 105


def test_nothing_but_a_tokenizer_is_ever_replaced(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.doc").write_text("years of work")
    message = refused(capsys, text, "--vocab-size", 110, "--out", out, "--overwrite")
    assert "holds more than a tokenizer (thesis.doc)" in message
    assert "a file, not a folder" in refused(capsys, text, "--vocab-size", 110, "--out", text)
    assert text.read_text("utf-8") == TEXT


def test_a_failure_leaves_the_earlier_tokenizer(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    train(text, "--out", out, "--vocab-size", 110, "--no-compare")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    message = refused(capsys, text, "--out", out, "--vocab-size", 20, "--overwrite")
    assert "20 is too small" in message and "at least" in message
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "text.txt"]


def test_bad_input_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"fine\n\n\xff\n")
    for path in (tmp_path / "absent.txt", bad):
        message = refused(capsys, path, "--out", tmp_path / "out")
        assert str(path) in message and message.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_help_says_what_the_flags_do_that_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        train("--help")
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--no-lowercase keeps them apart" in shown
    assert "--no-compare saves that time" in shown
    assert "(default: True)" not in shown


@pytest.mark.parametrize("kind", ["byte-bpe", "unigram"])
def test_other_kinds_are_learnt_and_open_everywhere(
    kind: str, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    options = [text, "--kind", kind, "--vocab-size", 300, "--out", out, "--held-out-share", 0.2]
    train(*options)
    printed = capsys.readouterr().out
    assert f"tokens by {kind}" in printed
    assert "pieces per word" in printed
    ours = load_tokenizer(out)
    theirs = LibraryTokenizer.from_file(str(out / "tokenizer.json"))
    assert ours.vocab_size == theirs.get_vocab_size() <= 300
    for sentence in ("The rivers matter", "Winter 12, é"):
        assert ours.encode(sentence).ids == theirs.encode(sentence).ids
    assert "Pass --overwrite" in refused(capsys, *options)
    train(*options, "--overwrite")
    if kind == "byte-bpe":  # the library learns other unigrams each time
        assert load_tokenizer(out).fingerprint == ours.fingerprint


def test_case_is_kept_in_a_unigram_vocabulary_on_request(text: Path, tmp_path: Path) -> None:
    options = [text, "--kind", "unigram", "--vocab-size", 120, "--held-out-share", 0]
    train(*options, "--out", tmp_path / "small")
    train(*options, "--out", tmp_path / "large", "--no-lowercase")
    small, large = (load_tokenizer(tmp_path / name) for name in ("small", "large"))
    assert small.encode("The").ids == small.encode("the").ids
    assert large.encode("The").ids != large.encode("the").ids


def test_a_byte_vocabulary_must_hold_the_bytes(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(
        capsys, text, "--kind", "byte-bpe", "--vocab-size", 200, "--out", tmp_path / "out"
    )
    assert "at least 261" in message

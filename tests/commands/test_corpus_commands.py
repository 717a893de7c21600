"""`corpus build` and `corpus inspect` as typed: what they print, and what they refuse."""

import json
import shlex

import pytest
from folders import contents
from tiny_tokenizers import tiny_byte_bpe

from bertsmith.commands.settings import pretrain
from bertsmith.data.corpus import Corpus
from bertsmith.tokenization.wordpiece import WordPieceTokenizer


@pytest.fixture(autouse=True)
def texts(tmp_path, monkeypatch):
    """A folder of texts and a vocabulary where the commands are typed."""
    monkeypatch.chdir(tmp_path)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "."]
    WordPieceTokenizer(tokens).save(tmp_path / "vocab")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("the cat. the cat sat.\n\nthe dog.\n\n\x01\n")


def words(line):
    more = " --tokenizer vocab --out out --processes 1" * line.startswith("build")
    return ["corpus", *(line + more).split()]


@pytest.fixture
def run(bertsmith):
    return lambda line: bertsmith(*words(line))


@pytest.fixture
def fails(refused):
    return lambda line, **more: refused(*words(line), **more)


def test_build_as_json_and_as_text(run, fails, tmp_path):
    found = json.loads(run("build texts --json --held-out 0"))
    assert found["out"] == "out"
    assert found["splits"]["train"]["documents"] == 2
    assert found["splits"]["train"]["unknown_rate"] == pytest.approx(1 / 10)
    assert found["splits"]["held_out"]["documents"] == 0
    assert found["sources"]["skipped"] == {"control_only_documents": 1}
    assert "--overwrite" in fails("build texts")
    lines = run("build texts --overwrite").splitlines()
    tokens = {
        next(x for x in lines if x.startswith(f"{split:10}1 document,")).split(", ")[-1]
        for split in ("train", "held_out")
    }
    assert tokens == {"7 tokens (0.000 % unknown)", "3 tokens (33.333 % unknown)"}
    assert "skipped   1 document of control characters alone" in lines
    program, command, *flags = shlex.split(lines[-1].removeprefix("next"))
    assert (program, command) == ("bertsmith", "pretrain")
    pretrain.parse(flags, "bertsmith pretrain").training.check_length()
    assert Corpus.open(tmp_path / "out", "held_out").num_documents == 1


def test_only_a_corpus_that_is_not_read_is_overwritten(run, fails, tmp_path):
    run("build texts")
    mine = tmp_path / "out" / "tokenizer" / "mine.txt"
    mine.write_text("the cat.")
    assert "out/tokenizer/mine.txt" in fails("build out/tokenizer/mine.txt --overwrite")
    mine.unlink()
    for name in ("notes.txt", "train-00000.ids.npy.bak"):
        path = tmp_path / "out" / name
        path.write_text("mine")
        assert f"({name})" in fails("build texts --overwrite")
        assert path.read_text() == "mine"
        path.unlink()


def test_build_refuses(run, fails, tmp_path):
    (tmp_path / "a.txt").write_text("今天", encoding="utf-8")
    told = fails("build a.txt")
    assert all(part in told for part in ("a.txt:", "(2)", "[UNK]", "--tokenizer"))
    assert "--held-out: found 2.0; allowed is 0 or" in fails("build texts --held-out 2")
    assert not (tmp_path / "out").exists()


def test_inspect(run, fails, tmp_path):
    run("build texts")
    found = json.loads(run("inspect out --json --examples 5"))
    assert found["corpus"] == "out"
    assert sum(part["documents"] for part in found["splits"].values()) == 2
    assert sum(part["unknown_tokens"] for part in found["splits"].values()) == 1
    examples = found["examples"]["train"] + found["examples"]["held_out"]
    assert len(examples) == 2
    shown = run("inspect out")
    for part in ("train: 1 document, ", "held_out: 1 document, ", "tokens in a sentence", "█",
                 "skipped: 1 document of control characters alone", "the cat sat."):  # fmt: skip
        assert part in shown
    run("build texts --held-out 0 --overwrite")
    assert run("inspect out --page page.html")
    assert (tmp_path / "page.html").exists()


def test_inspect_marks_an_example_that_is_cut(run, tmp_path):
    (tmp_path / "texts" / "a.txt").write_text("." * 300 + "\n\n" + "." * 301)
    run("build texts --held-out 0")
    examples = json.loads(run("inspect out --json"))["examples"]["train"]
    assert examples == ["." * 300, "." * 300 + " …"]


def test_inspect_shows_as_many_characters_where_tokens_are_bytes(bertsmith, run, tmp_path):
    tiny_byte_bpe().save(tmp_path / "bytes")
    (tmp_path / "texts" / "a.txt").write_text("🙂" * 300 + "\n\n" + "🙂" * 301, encoding="utf-8")
    line = "corpus build texts --tokenizer bytes --out out --processes 1 --held-out 0"
    bertsmith(*line.split())
    assert Corpus.open(tmp_path / "out").num_tokens > 1200
    examples = json.loads(run("inspect out --json"))["examples"]["train"]
    assert examples == ["🙂" * 300, "🙂" * 300 + " …"]


def test_html_in_the_text_is_counted_and_told_once(run, tmp_path):
    text = "the cat.<br /><br />the cat sat.</p>\n\nthe cat: 1 < 2 > 0.\n"
    (tmp_path / "texts" / "b.txt").write_text(text)
    assert run("build texts").count("3 HTML tags such as <i> or <br />") == 1
    assert run("inspect out").count("3 HTML tags such as <i> or <br />") == 1
    assert json.loads(run("inspect out --json"))["sources"]["html_tags"] == 3
    assert "are left in the text" in run("inspect out") and "Remove them." in run("inspect out")
    (tmp_path / "texts" / "b.txt").write_text("the cat sat.<br />\n")
    shown = run("build texts --overwrite")
    line = "1 HTML tag such as <i> or <br /> is left in the text."
    assert line in shown and "Remove it." in shown
    (tmp_path / "texts" / "b.txt").unlink()
    assert "HTML" not in run("build texts --overwrite") + run("inspect out")


def test_inspect_refuses(run, fails, tmp_path):
    run("build texts")
    assert "--examples: found -1; allowed is 0" in fails("inspect out --examples -1")
    path = tmp_path / "out" / "manifest.json"
    whole = path.read_text()
    manifest = json.loads(whole)
    manifest["splits"]["train"]["tokens"] = 10**9
    path.write_text(json.dumps(manifest))
    assert "manifest.json: splits.train.tokens is 1,000,000,000" in fails("inspect out")
    path.write_text(whole)
    shard = tmp_path / "out" / "train-00000.ids.npy"
    shard.write_bytes(shard.read_bytes()[:-1] + b"\x07")
    assert "out/train-00000.ids.npy: " in fails("inspect out", worded=False)  # checksums


def test_shards_are_encoded_and_merged(run, fails, tmp_path):
    assert "such as 3/16" in fails("build texts --shard 3/2")
    assert not (tmp_path / "out").exists()
    assert "out: no shards of a corpus" in fails("merge out")
    shown = run("build texts --shard 1/2").splitlines()
    assert shown[0] == "shard 1/2  2 documents, 10 tokens; 1 of 1 part"
    assert shlex.split(shown[1].removeprefix("next"))[:4] == ["bertsmith", "corpus", "merge", "out"]
    assert "--held-out" in fails("build texts --shard 2/2 --held-out 0")
    report = json.loads(run("build texts --shard 2/2 --json"))
    assert (report["shard"], report["units"], report["documents"]) == ("2/2", 0, 0)
    merged = json.loads(run("merge out --json"))
    files = contents(tmp_path / "out")
    alone = json.loads(run("build texts --json --overwrite"))
    assert {**merged, "elapsed_seconds": 0} == {**alone, "elapsed_seconds": 0}
    assert files == contents(tmp_path / "out")
    run("build texts --shard 1/1 --overwrite")
    assert "bertsmith pretrain" in run("merge out")

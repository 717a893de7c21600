"""`corpus inspect` on the command line: it shows both splits and finds an altered shard."""

import json
from pathlib import Path

import pytest

from bertsmith.cli import main
from bertsmith.data.corpus import CorpusSettings, build_corpus
from bertsmith.tokenization.wordpiece import WordPieceTokenizer


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    tokenizer = WordPieceTokenizer(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "."]
    )
    (tmp_path / "a.txt").write_text("the cat. " * 7 + "\n\nthe dog sat.\n\nthe cat sat.\n\n\x02")
    build_corpus([tmp_path / "a.txt"], tokenizer, tmp_path / "c", CorpusSettings())
    return tmp_path / "c"


def test_json_is_one_object(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["corpus", "inspect", str(corpus), "--json", "--examples", "5"])
    found = json.loads(capsys.readouterr().out)
    assert found["corpus"] == str(corpus)
    parts = found["splits"].values()
    assert sum(part["documents"] for part in parts) == 3
    assert sum(part["unknown_tokens"] for part in parts) == 1
    examples = found["examples"]["train"] + found["examples"]["held_out"]
    assert len(examples) == 3
    assert "the cat sat." in examples


def test_text_shows_counts_bars_and_examples(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["corpus", "inspect", str(corpus)])
    shown = capsys.readouterr().out
    for part in ("train: 2 documents", "held_out: 1 documents", "tokens in a sentence", "█"):
        assert part in shown
    assert "skipped: 1 control only documents" in shown
    assert "the cat sat." in shown


def test_fewer_examples_than_none(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["corpus", "inspect", str(corpus), "--examples", "-1"])
    assert caught.value.code == 2
    assert "--examples: found -1; allowed is 0 or more." in capsys.readouterr().err


def test_an_altered_shard_ends_with_2(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shard = corpus / "train-00000.ids.npy"
    content = shard.read_bytes()
    shard.write_bytes(content[:-1] + b"\x07")
    with pytest.raises(SystemExit) as caught:
        main(["corpus", "inspect", str(corpus)])
    assert caught.value.code == 2
    assert "train-00000.ids.npy: SHA-256" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["documents", "sentences", "tokens"])
@pytest.mark.parametrize("count", [0, 10**9])
def test_counts_that_the_shards_have_not(
    corpus: Path, capsys: pytest.CaptureFixture[str], key: str, count: int
) -> None:
    manifest = json.loads((corpus / "manifest.json").read_text())
    manifest["splits"]["train"][key] = count
    (corpus / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(SystemExit) as caught:
        main(["corpus", "inspect", str(corpus)])
    assert caught.value.code == 2
    assert f"manifest.json: splits.train.{key} is {count:,}, its shards" in capsys.readouterr().err

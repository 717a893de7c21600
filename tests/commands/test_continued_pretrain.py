"""`bertsmith pretrain --from` and `tokenizer extend`, as a user meets them."""

import json
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from tiny_tokenizers import TINY

from bertsmith import cli
from bertsmith.data.corpus import CorpusSettings, build_corpus
from bertsmith.data.shards import Corpus
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads, family_named
from bertsmith.model.loading import load_model
from bertsmith.model.saving import save_model
from bertsmith.pretraining.resolve import LEARNING_RATES, nearest_preset
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.wordpiece import WordPieceTokenizer

RUN = [
    "--max-length", "16", "--batch-size", "4", "--eval-rows", "4",
    "--precision", "fp32", "--threads", "1",
]  # fmt: skip


def save_general(folder: Path, tokenizer: Tokenizer, *heads: str, **labels: int) -> Path:
    """A model that may have read other texts before."""
    config = BertConfig(
        tokenizer.vocab_size, 24, 2, 3, 44, max_position_embeddings=23, pooling="mean",
        hidden_dropout_prob=0.05, attention_probs_dropout_prob=0.0, initializer_range=0.2,
    )  # fmt: skip
    torch.manual_seed(3)
    save_model(BertModel(config, build_heads(config, heads, **labels)), folder, tokenizer)
    return folder


@pytest.fixture(scope="module")
def general(corpus_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pre-trained folder with the corpus's vocabulary."""
    tokenizer = Corpus.open(corpus_dir).tokenizer()
    folder = tmp_path_factory.mktemp("general") / "model"
    return save_general(folder, tokenizer, "masked_lm", "next_sentence")


def command(source: Path, corpus_dir: Path, out: Path, *more: str) -> list[str]:
    return ["pretrain", *RUN, "--from", str(source), "--corpus", str(corpus_dir),
            "--out", str(out), *more]  # fmt: skip


def refused(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    with pytest.raises(SystemExit) as stopped:
        cli.main(words)
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_a_fine_tuned_model_loses_its_head_and_is_told(
    corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = Corpus.open(corpus_dir).tokenizer()
    source = save_general(tmp_path / "classifier", tokenizer, "classify", num_labels=3)
    cli.main(command(source, corpus_dir, tmp_path / "run", "--steps", "1", "--pairs", "none"))
    printed = capsys.readouterr().out
    assert "new        masked-LM head, from the word embedding" in printed
    assert "dropped    classifier.bias, classifier.weight" in printed
    # The pooler was not trained and is there all the same.
    before, after = (load_model(path, heads=()) for path in (source, tmp_path / "run"))
    assert before.pooler is not None
    assert after.pooler is not None
    assert torch.equal(before.pooler.dense.weight, after.pooler.dense.weight)


def stopped_run(source: Path, corpus_dir: Path, out: Path, *more: str) -> list[str]:
    """A run that was stopped after its first checkpoint, of two; gives how it is called."""
    words = command(source, corpus_dir, out, "--steps", "8", "--checkpoint-every", "4", *more)
    cli.main(words)
    shutil.rmtree(out / "checkpoints" / "step-00000008")
    run = json.loads((out / "run.json").read_text())
    del run["summary"]
    (out / "run.json").write_text(json.dumps(run))
    return words


def test_build_corpus_with_an_extended_tokenizer_keeps_old_ids(
    general: Path, corpus_dir: Path, tmp_path: Path
) -> None:
    """Texts without a new piece have the ids that they had."""
    old = load_tokenizer(general)
    new = WordPieceTokenizer([*old.vocab, "zzz"], **old.settings())
    text = corpus_dir.parent / "text.txt"
    build_corpus([text], new, tmp_path / "c", CorpusSettings(held_out=0.15))
    for split in ("train", "held_out"):
        ours, theirs = Corpus.open(tmp_path / "c", split), Corpus.open(corpus_dir, split)
        assert ours.num_tokens == theirs.num_tokens
        assert (ours.token_ids(0, 40) == theirs.token_ids(0, 40)).all()


def test_goes_on_from_the_folder(
    general: Path, corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From its weights and from no others: with a rate of almost nothing they stay."""
    recipe, out = tmp_path / "go-on.toml", tmp_path / "run"
    recipe.write_text(f'from = "{general}"\n[training]\nsteps = 2\n')
    cli.main(["pretrain", str(recipe), *RUN, "--corpus", str(corpus_dir), "--out", str(out),
              "--hidden-dropout-prob", "0.0", "--learning-rate", "1e-12", "--weight-decay", "0",
              "--json"])  # fmt: skip
    result = json.loads(capsys.readouterr().out)
    before = result["before"]
    assert before["held_out_mlm_loss"] == pytest.approx(result["held_out_mlm_loss"], abs=1e-6)
    found, expected = load_model(out).state_dict(), load_model(general).state_dict()
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, atol=1e-6, rtol=0)
    config = load_model(out).config
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.0, 0.0)
    assert (config.pooling, config.max_position_embeddings) == ("mean", 23)
    run = json.loads((out / "run.json").read_text())
    assert run["settings"]["from"] == run["source"]["folder"] == str(general)
    assert len(run["source"]["weights"]["model.safetensors"]) == 64
    shorter = ["--max-position-embeddings", "17", "--steps", "1"]
    cli.main(command(general, corpus_dir, tmp_path / "short", *shorter))
    printed = capsys.readouterr()
    assert f"from       {general}: kept 46 weights" in printed.out and "→" in printed.out
    assert "shorter    positions from 23 to 17" in printed.out
    assert load_model(tmp_path / "short").config.max_position_embeddings == 17
    run = json.loads((tmp_path / "short" / "run.json").read_text())
    assert run["config"]["optim"]["learning_rate"] == pytest.approx(LEARNING_RATES["tiny"] / 3)
    rates = {(128, 2): "tiny", (256, 4): "mini", (384, 6): "small", (768, 12): "base"}
    for (hidden, layers), preset in rates.items():
        assert nearest_preset(BertConfig(9, hidden, layers, hidden // 32, 4 * hidden)) == preset


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--preset mini", "model.preset: found 'mini' beside --from"),
        ("--pooling mean", "model.pooling: found 'mean' beside --from"),
        ("--max-length 32", "lengthens what"),
        ("--max-position-embeddings 8", "found 16; allowed is at most"),
        ("--from {other}", "its tokenizer is not that of {other}: id 5 is 'baba'"),
        ("--overwrite --out {general.parent}", "holds --from {general}"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_written(
    general: Path, corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    more: str, message: str,
) -> None:  # fmt: skip
    other = save_general(tmp_path / "other", TINY["wordpiece"](), "masked_lm")
    names = {"general": general, "other": other}
    words = command(general, corpus_dir, tmp_path / "run", "--steps", "2")
    assert message.format(**names) in refused(capsys, [*words, *more.format(**names).split()])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("kind", "family", "positions"),
    [("wordpiece", "bert", 23), ("byte-bpe", "roberta", 25), ("unigram", "albert", 24)],
)
def test_the_whole_road_with_new_pieces(
    corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    kind: str, family: str, positions: int,
) -> None:  # fmt: skip
    text, tokens, corpus, first, out = (
        corpus_dir.parent / "text.txt", tmp_path / "tokens", tmp_path / "corpus",
        tmp_path / "first", tmp_path / "run",
    )  # fmt: skip
    old, config_type = TINY[kind](), family_named(family).config
    ids = config_type.token_ids(old.pad_id, old.cls_id, old.sep_id)
    sizes = {"embedding_size": 11} if family == "albert" else {}
    config = config_type(
        old.vocab_size, 24, 2, 3, 44, max_position_embeddings=positions, **ids, **sizes
    )
    save_model(BertModel(config, build_heads(config, ["masked_lm"])), first, old)
    extend = ["tokenizer", "extend", "--from", str(first), "--texts", str(text),
              "--held-out-share", "0.1", "--out", str(tokens), "--add"]  # fmt: skip
    assert "--add: found 0" in refused(capsys, [*extend, "0"])
    cli.main([*extend, "60", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["vocab_size"] == found["num_old"] + 60 == old.vocab_size + 60
    assert all(1 <= fit["after"] < fit["before"] for fit in found["pieces_per_word"].values())
    assert "Pass --overwrite" in refused(capsys, [*extend, "60"])
    cli.main([*extend, "60", "--overwrite"])
    assert "added       60 pieces" in capsys.readouterr().out
    new = load_tokenizer(tokens)
    assert new.vocab[: old.vocab_size] == old.vocab
    cli.main(["corpus", "build", str(text), "--tokenizer", str(tokens), "--out", str(corpus),
              "--held-out", "0.15", "--processes", "1"])  # fmt: skip
    capsys.readouterr()
    longer = ["--max-length", "32", "--max-position-embeddings", "32"] if family == "bert" else []
    cli.main(command(first, corpus, out, "--steps", "2", "--json", *longer))
    source = json.loads(capsys.readouterr().out)["source"]
    assert source["num_words"] == [old.vocab_size, new.vocab_size]
    added, known = new.vocab[old.vocab_size :], set("".join(old.vocab))
    unknown = [piece for piece in added if not known >= set(piece)] if kind == "unigram" else []
    assert source["num_unknown"] == len(unknown)
    pairs = {"bert": "next-sentence", "albert": "sentence-order"}
    heads = ["pooler, at random", f"{pairs.get(family)} head, at random"]
    assert source["new"] == (heads if family in pairs else [])
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(out)
    assert theirs.config.vocab_size == new.vocab_size
    if longer:
        assert source["num_positions"] == [23, 32]
        assert theirs.config.max_position_embeddings == load_tokenizer(out).model_max_length == 32
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    document = text.read_text(encoding="utf-8")[:100]
    assert their_tokenizer(document)["input_ids"] == new.encode(document).ids


def test_resumes_bit_for_bit_without_the_source_but_not_with_another(
    general: Path, corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = shutil.copytree(general, tmp_path / "source"), tmp_path / "run"
    words = stopped_run(source, corpus_dir, out)
    weights = (out / "model.safetensors").read_bytes()
    (out / "model.safetensors").unlink()
    other = [str(general) if word == str(source) else word for word in words]
    assert "--from was" in refused(capsys, [*other, "--resume"])
    place = words.index("--from")
    alone = [*words[:place], *words[place + 2 :], "--preset", "tiny"]
    assert "is now None" in refused(capsys, [*alone, "--resume"])
    # Without a checkpoint a run begins anew, from the same weights or not at all.
    bare = shutil.copytree(out, tmp_path / "bare", ignore=shutil.ignore_patterns("checkpoints"))
    shutil.rmtree(source)
    save_general(source, load_tokenizer(general), "masked_lm")
    anew = [str(bare) if word == str(out) else word for word in words]
    assert "source_weights.model.safetensors was" in refused(capsys, [*anew, "--resume"])
    shutil.rmtree(source)
    cli.main([*words, "--resume", "--json"])
    assert (out / "model.safetensors").read_bytes() == weights
    result = json.loads(capsys.readouterr().out)
    assert result["source"]["folder"] == str(source)
    assert "held_out_mlm_loss" in result["before"]

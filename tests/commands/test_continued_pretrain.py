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
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.resolve import LEARNING_RATES, nearest_preset, resolve_unmeasured
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.wordpiece import WordPieceTokenizer
from bertsmith.training.journal import read_journal

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


@pytest.fixture(scope="module")
def syllables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pre-trained folder whose vocabulary has the syllables of the corpus's words only."""
    ends = ["ba", "ce", "di", "fo", "gu", "ha", "ke", "li", "mo", "nu", "pa", "re"]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = WordPieceTokenizer([*special, *ends, *(f"##{end}" for end in ends), "."])
    return save_general(tmp_path_factory.mktemp("syllables") / "model", tokenizer, "masked_lm")


def command(source: Path, corpus_dir: Path, out: Path, *more: str) -> list[str]:
    return ["pretrain", *RUN, "--from", str(source), "--corpus", str(corpus_dir),
            "--out", str(out), *more]  # fmt: skip


def refused(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    with pytest.raises(SystemExit) as stopped:
        cli.main(words)
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_goes_on_from_the_folder(
    general: Path, corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    cli.main(command(general, corpus_dir, out, "--steps", "2", "--hidden-dropout-prob", "0.0"))
    printed = capsys.readouterr()
    assert f"from       {general}: kept 46 weights" in printed.out
    assert "masked LM loss" in printed.out
    assert "→" in printed.out
    assert f"from {general}: kept" in printed.err
    config, before = load_model(out).config, load_model(general).config
    assert config.hidden_dropout_prob == 0.0
    assert config.attention_probs_dropout_prob == before.attention_probs_dropout_prob == 0.0
    assert (config.pooling, config.max_position_embeddings) == ("mean", 23)
    run = json.loads((out / "run.json").read_text())
    assert run["settings"]["from"] == run["source"]["folder"] == str(general)
    assert len(run["source"]["weights"]["model.safetensors"]) == 64
    assert run["config"]["learning_rate"] == pytest.approx(LEARNING_RATES["tiny"] / 3)
    assert read_journal(out / "journal.jsonl")[0]["step"] == 0


def test_the_first_figures_are_those_of_the_folder(
    general: Path, corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Training starts from the folder's weights and from no others: with a rate of almost nothing
    they stay, and so do the figures."""
    out = tmp_path / "run"
    rate = ["--learning-rate", "1e-12", "--weight-decay", "0"]
    cli.main(command(general, corpus_dir, out, "--steps", "2", "--json", *rate))
    result = json.loads(capsys.readouterr().out)
    before = result["before"]
    assert before["held_out_mlm_loss"] == pytest.approx(result["held_out_mlm_loss"], abs=1e-6)
    found, expected = load_model(out).state_dict(), load_model(general).state_dict()
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, atol=1e-6, rtol=0)


def test_the_whole_road_with_new_pieces_and_positions(
    syllables: Path, corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, tokens, corpus, out = (
        corpus_dir.parent / "text.txt", tmp_path / "tokens", tmp_path / "corpus", tmp_path / "run"
    )  # fmt: skip
    cli.main(["tokenizer", "extend", "--from", str(syllables), "--texts", str(text), "--add", "60",
              "--held-out-share", "0.1", "--out", str(tokens)])  # fmt: skip
    printed = capsys.readouterr().out
    assert "added       60 pieces" in printed
    assert "held out" in printed
    old, new = load_tokenizer(syllables), load_tokenizer(tokens)
    assert new.vocab[: old.vocab_size] == old.vocab
    assert new.vocab_size == old.vocab_size + 60
    cli.main(["corpus", "build", str(text), "--tokenizer", str(tokens), "--out", str(corpus),
              "--held-out", "0.15", "--processes", "1"])  # fmt: skip
    capsys.readouterr()
    lengthen = ["--max-length", "32", "--max-position-embeddings", "32"]
    cli.main(command(syllables, corpus, out, "--steps", "2", "--json", *lengthen))
    source = json.loads(capsys.readouterr().out)["source"]
    assert source["num_words"] == [old.vocab_size, new.vocab_size]
    assert source["num_positions"] == [23, 32]
    assert source["new"] == ["pooler, at random", "next-sentence head, at random"]
    theirs = transformers.BertForPreTraining.from_pretrained(out)
    assert theirs.config.vocab_size == new.vocab_size
    assert theirs.config.max_position_embeddings == 32
    assert load_tokenizer(out).model_max_length == 32
    assert load_tokenizer(out).vocab == new.vocab


def test_json_of_an_extension_is_one_object(
    syllables: Path, corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = corpus_dir.parent / "text.txt"
    words = ["tokenizer", "extend", "--from", str(syllables), "--texts", str(text), "--add", "50",
             "--held-out-share", "0.1", "--out", str(tmp_path / "tokens")]  # fmt: skip
    cli.main([*words, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["settings"]["from"] == str(syllables)
    assert found["vocab_size"] == found["num_old"] + 50
    for fit in found["pieces_per_word"].values():
        assert 1 <= fit["after"] < fit["before"]
    assert "Pass --overwrite" in refused(capsys, words)
    words[-1] = str(tmp_path / "other")
    assert "--add: found 0" in refused(capsys, [*words, "--add", "0"])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--preset", "mini"), "model.preset: found 'mini' beside --from"),
        (("--pooling", "mean"), "model.pooling: found 'mean' beside --from"),
        (("--max-length", "32"), "lengthens what"),
        (("--max-position-embeddings", "8"), "found 16; allowed is at most"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_written(
    general: Path,
    corpus_dir: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: tuple[str, ...],
    message: str,
) -> None:
    words = command(general, corpus_dir, tmp_path / "run", "--steps", "2", *more)
    assert message in refused(capsys, words)
    assert not (tmp_path / "run").exists()


def test_positions_are_shortened_where_the_rows_allow_it(
    general: Path, corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shorter = ["--max-position-embeddings", "17", "--steps", "1"]
    cli.main(command(general, corpus_dir, tmp_path / "run", *shorter))
    assert "shorter    positions from 23 to 17" in capsys.readouterr().out
    assert load_model(tmp_path / "run").config.max_position_embeddings == 17


def test_another_vocabulary_is_refused(
    syllables: Path, corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = refused(capsys, command(syllables, corpus_dir, tmp_path / "run", "--steps", "2"))
    assert f"{corpus_dir}: its tokenizer is not that of {syllables}: id 5 is 'baba'" in error
    assert not (tmp_path / "run").exists()


def test_the_source_is_never_written_over(
    general: Path, corpus_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = command(general, corpus_dir, general.parent, "--steps", "2", "--overwrite")
    assert f"holds --from {general}" in refused(capsys, words)


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


def test_a_recipe_may_name_the_source(
    general: Path, corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "go-on.toml"
    recipe.write_text(f'from = "{general}"\n[training]\nsteps = 1\n')
    out = tmp_path / "run"
    cli.main(["pretrain", str(recipe), *RUN, "--corpus", str(corpus_dir), "--out", str(out)])
    assert f"from       {general}" in capsys.readouterr().out


def stopped_run(source: Path, corpus_dir: Path, out: Path, *more: str) -> list[str]:
    """A run that was stopped after its first checkpoint, of two; gives how it is called."""
    words = command(source, corpus_dir, out, "--steps", "8", "--checkpoint-every", "4", *more)
    cli.main(words)
    shutil.rmtree(out / "checkpoints" / "step-00000008")
    run = json.loads((out / "run.json").read_text())
    del run["summary"]
    (out / "run.json").write_text(json.dumps(run))
    return words


@pytest.mark.parametrize("more", [(), ("--pairs", "none")])
def test_resumes_bit_for_bit_without_the_source(
    general: Path, corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    more: tuple[str, ...],
) -> None:  # fmt: skip
    source, out = tmp_path / "source", tmp_path / "run"
    shutil.copytree(general, source)
    words = stopped_run(source, corpus_dir, out, *more)
    weights = (out / "model.safetensors").read_bytes()
    (out / "model.safetensors").unlink()
    shutil.rmtree(source)
    capsys.readouterr()
    cli.main([*words, "--resume", "--json"])
    assert (out / "model.safetensors").read_bytes() == weights
    result = json.loads(capsys.readouterr().out)
    assert result["source"]["folder"] == str(source)
    assert "held_out_mlm_loss" in result["before"]


def test_another_source_does_not_resume_a_run(
    general: Path, corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "source", tmp_path / "run"
    shutil.copytree(general, source)
    words = stopped_run(source, corpus_dir, out)
    words[words.index(str(source))] = str(general)
    assert "--from was" in refused(capsys, [*words, "--resume"])
    place = words.index("--from")
    alone = [*words[:place], *words[place + 2 :], "--preset", "tiny"]
    assert "is now None" in refused(capsys, [*alone, "--resume"])
    # Without a checkpoint the run begins anew, from the same weights or not at all.
    shutil.rmtree(out / "checkpoints")
    save_general(source, load_tokenizer(general), "masked_lm")
    words[words.index(str(general))] = str(source)
    assert "source_weights.model.safetensors was" in refused(capsys, [*words, "--resume"])


def test_rates_follow_the_size_of_the_layers() -> None:
    def nearest(hidden_size: int, num_layers: int) -> str:
        heads = hidden_size // 32
        return nearest_preset(BertConfig(999, hidden_size, num_layers, heads, 4 * hidden_size))

    assert nearest(128, 2) == "tiny"
    assert nearest(256, 4) == "mini"
    assert nearest(768, 12) == "base"
    assert nearest(768, 6) in ("medium", "base")
    assert nearest(384, 6) == "small"


@pytest.mark.parametrize(
    ("kind", "family", "sizes"),
    [
        ("byte-bpe", "roberta", {"max_position_embeddings": 25}),
        ("unigram", "albert", {"max_position_embeddings": 24, "embedding_size": 11}),
    ],
)
def test_the_whole_road_with_new_pieces_of_other_kinds(
    corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    kind: str, family: str, sizes: dict[str, int],
) -> None:  # fmt: skip
    text, tokens, corpus, first, out = (
        corpus_dir.parent / "text.txt", tmp_path / "tokens", tmp_path / "corpus",
        tmp_path / "first", tmp_path / "run",
    )  # fmt: skip
    old = TINY[kind]()
    kind_of_config = family_named(family).config
    ids = kind_of_config.token_ids(old.pad_id, old.cls_id, old.sep_id)
    config = kind_of_config(old.vocab_size, 24, 2, 3, 44, **ids, **sizes)
    save_model(BertModel(config, build_heads(config, ["masked_lm"])), first, old)
    cli.main(["tokenizer", "extend", "--from", str(first), "--texts", str(text), "--add", "60",
              "--held-out-share", "0.1", "--out", str(tokens)])  # fmt: skip
    printed = capsys.readouterr().out
    assert "added       60 pieces" in printed and "held out" in printed
    new = load_tokenizer(tokens)
    cli.main(["corpus", "build", str(text), "--tokenizer", str(tokens), "--out", str(corpus),
              "--held-out", "0.15", "--processes", "1"])  # fmt: skip
    capsys.readouterr()
    cli.main(command(first, corpus, out, "--steps", "2", "--json", "--max-length", "16"))
    source = json.loads(capsys.readouterr().out)["source"]
    assert source["num_words"] == [old.vocab_size, old.vocab_size + 60]
    known = set("".join(old.vocab)) if kind == "unigram" else None
    added = new.vocab[old.vocab_size :]
    unknown = [] if known is None else [piece for piece in added if not known >= set(piece)]
    assert source["num_unknown"] == len(unknown)
    heads = ["pooler, at random", "sentence-order head, at random"]
    assert source["new"] == ([] if kind == "byte-bpe" else heads)
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(out)
    assert theirs.config.vocab_size == new.vocab_size == old.vocab_size + 60
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    document = text.read_text(encoding="utf-8")[:500]
    assert their_tokenizer(document)["input_ids"] == new.encode(document).ids


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


def test_a_run_has_its_own_dropout_from_the_start(general: Path, corpus_dir: Path) -> None:
    """It decides how many rows are computed at once, and a resumed run reads its own folder."""
    settings = PretrainingSettings(max_length=16)
    job = PretrainJob(corpus_dir, ModelSettings(hidden_dropout_prob=0.3), settings, from_=general)
    config = resolve_unmeasured(job).model
    assert config.hidden_dropout_prob == 0.3

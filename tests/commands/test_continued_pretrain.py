"""`bertsmith pretrain --from` and `tokenizer extend`, as a user meets them."""

import json
import shutil

import pytest
import torch
import transformers
from tiny_models import save_tiny_of
from tiny_runs import LENGTHS
from tiny_tokenizers import TINY

from bertsmith.data.corpus import Corpus
from bertsmith.model.loading import load_model
from bertsmith.pretraining.cls_attention import reason_to_reset
from bertsmith.pretraining.resolve import LEARNING_RATES
from bertsmith.tokenization.auto import load_tokenizer


def save_general(folder, tokenizer, *heads):
    """Write a model that may have read other texts before."""
    return save_tiny_of(
        folder, "bert", heads, tokenizer, max_position_embeddings=23, pooling="mean",
        hidden_dropout_prob=0.05, attention_probs_dropout_prob=0.0,
    )  # fmt: skip


@pytest.fixture(scope="module")
def general(corpus_dir, tmp_path_factory):
    """A pre-trained folder with the corpus's vocabulary."""
    folder = tmp_path_factory.mktemp("general") / "model"
    return save_general(folder, Corpus.open(corpus_dir).tokenizer(), "masked_lm", "next_sentence")


def command(source, corpus_dir, out, *more):
    words = ["pretrain", *LENGTHS, "--from", source, "--corpus", corpus_dir, "--out", out]
    return [*words, "--steps", 2, *more]


def test_goes_on_from_the_folder(bertsmith, general, corpus_dir, tmp_path):
    """From its weights and from no others: with a rate of almost nothing they stay."""
    recipe, out = tmp_path / "go-on.toml", tmp_path / "run"
    recipe.write_text(f'from = "{general}"\n[training]\nsteps = 2\n')
    still = ("--learning-rate", "1e-12", "--weight-decay", 0, "--hidden-dropout-prob", 0.0)
    words = ("pretrain", "--recipe", recipe, *LENGTHS, "--corpus", corpus_dir, "--out", out, *still)
    result = json.loads(bertsmith(*words, "--json"))
    before = result["before"]
    assert before["held_out_mlm_loss"] == pytest.approx(result["held_out_mlm_loss"], abs=1e-6)
    found, expected = load_model(out).state_dict(), load_model(general).state_dict()
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, atol=1e-6, rtol=0)
    config = load_model(out).config
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.0, 0.0)
    assert (config.pooling, config.max_position_embeddings) == ("mean", 23)
    assert load_tokenizer(out).model_max_length == 23
    run = json.loads((out / "run.json").read_text())
    assert run["settings"]["from"] == run["source"]["folder"] == str(general)
    assert len(run["source"]["weights"]["model.safetensors"]) == 64
    assert run["source"]["reason_to_reset"] == ""


def test_whether_cls_was_taught_is_kept_for_fine_tuning(bertsmith, corpus_dir, tmp_path):
    first, out = tmp_path / "first", tmp_path / "run"
    tiny = ("--preset", "tiny", *LENGTHS, "--steps", 1, "--pairs", "none")
    bertsmith("pretrain", *tiny, "--corpus", corpus_dir, "--out", first)
    bertsmith(*command(first, corpus_dir, out, "--pairs", "none"))
    run = json.loads((out / "run.json").read_text())
    assert "pairs none" in run["source"]["reason_to_reset"] == reason_to_reset(run)


def test_positions_are_cut_and_the_rate_is_that_of_the_size(
    bertsmith, general, corpus_dir, tmp_path
):
    out = tmp_path / "run"
    printed = bertsmith(*command(general, corpus_dir, out, "--max-position-embeddings", 17))
    assert f"from       {general}: kept 46 weights" in printed and "→" in printed
    assert "shorter    positions from 23 to 17" in printed
    assert load_model(out).config.max_position_embeddings == 17
    run = json.loads((out / "run.json").read_text())
    assert run["config"]["optim"]["learning_rate"] == pytest.approx(LEARNING_RATES["tiny"] / 3)


@pytest.mark.parametrize(("more", "parts"), [
    ("--preset mini", ["--preset: found 'mini'", "--from {general}"]),
    ("--pooling mean", ["--pooling: found 'mean'", "--from {general}"]),
    ("--max-length 32", ["--max-length: found 32", "23. ", "--max-position-embeddings 32"]),
    ("--max-position-embeddings 8", ["--max-length: found 16", "8. ", "--max-length 8"]),
    ("--from {other}", ["{corpus}: ", ": id 5 is 'baba' instead of '!'", "--tokenizer {other}"]),
    ("--overwrite --out {general.parent}", ["{general.parent}: ", "--from {general}", "--out"]),
])  # fmt: skip
def test_what_does_not_fit_is_refused_and_nothing_written(
    refused, general, corpus_dir, tmp_path, more, parts
):
    other = save_general(tmp_path / "other", TINY["wordpiece"](), "masked_lm")
    names = {"general": general, "other": other, "corpus": corpus_dir}
    words = command(general, corpus_dir, tmp_path / "run")
    told = refused(*words, *more.format(**names).split())
    assert all(part.format(**names) in told for part in parts)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["pretrain", "plan"])
def test_the_recipe_is_refused_without_a_model(refused, corpus_dir, tmp_path, command):
    recipe = tmp_path / "mine.toml"
    recipe.write_text('needs = ["from"]\n')
    for name in ("continue", recipe):
        words = ("--recipe", name, "--corpus", corpus_dir, "--steps", 1)
        out = ("--out", tmp_path / "run") if command == "pretrain" else ()
        told = refused(command, *words, *out)
        assert f"--recipe {name}: " in told and "Give --from DIR" in told
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("needs", ['"from"', '["fron"]', '["corpus"]', "[1]"])
def test_a_recipe_needs_keys_of_its_own(refused, tmp_path, needs):
    recipe = tmp_path / "mine.toml"
    recipe.write_text(f"needs = {needs}\n")
    told = refused("pretrain", "--recipe", recipe, "--corpus", "x", "--out", tmp_path / "run")
    assert f"{recipe}: needs: found " in told and ": from, page." in told


@pytest.mark.parametrize(("kind", "family"), [
    ("wordpiece", "bert"), ("wordpiece", "modernbert"), ("byte-bpe", "roberta"),
    ("unigram", "albert"),
])  # fmt: skip
def test_the_whole_road_with_new_pieces(bertsmith, refused, corpus_dir, tmp_path, kind, family):
    text, old = corpus_dir.parent / "text.txt", TINY[kind]()
    tokens, corpus, out = (tmp_path / name for name in ("tokens", "corpus", "run"))
    first = save_tiny_of(tmp_path / "first", family, tokenizer=old)
    extend = ("tokenizer", "extend", "--from", first, "--texts", text, "--held-out-share", 0.1,
              "--out", tokens, "--add")  # fmt: skip
    found = json.loads(bertsmith(*extend, 60, "--json"))
    assert found["vocab_size"] == found["num_old"] + 60 == old.vocab_size + 60
    assert all(1 <= fit["after"] < fit["before"] for fit in found["fertility"].values())
    assert "--overwrite" in refused(*extend, 60)
    assert "added       60 tokens" in bertsmith(*extend, 60, "--overwrite")
    new = load_tokenizer(tokens)
    assert new.vocab[: old.vocab_size] == old.vocab
    bertsmith("corpus", "build", text, "--tokenizer", tokens, "--out", corpus,
              "--held-out", 0.15, "--processes", 1)  # fmt: skip
    is_longer = family in ("bert", "modernbert")
    longer = ("--max-length", 48, "--max-position-embeddings", 48) if is_longer else ()
    source = json.loads(bertsmith(*command(first, corpus, out, "--json", *longer)))["source"]
    assert source["num_words"] == [old.vocab_size, new.vocab_size]
    pairs = {"bert": "next-sentence", "albert": "sentence-order"}
    heads = ["pooler, at random", f"{pairs.get(family)} head, at random"]
    assert source["new"] == (heads if family in pairs else [])
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(out)
    assert theirs.config.vocab_size == new.vocab_size
    if longer:
        assert source["num_positions"] == [37, 48]
        assert source["repeats_positions"] == (family == "bert")
        assert theirs.config.max_position_embeddings == load_tokenizer(out).model_max_length == 48
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    document = text.read_text(encoding="utf-8")[:100]
    assert their_tokenizer(document)["input_ids"] == new.encode(document).ids


def test_the_next_command_names_the_model_from_any_folder(
    bertsmith, corpus_dir, tmp_path, monkeypatch
):
    text = corpus_dir.parent / "text.txt"
    save_tiny_of(tmp_path / "first", "bert", tokenizer=TINY["wordpiece"]())
    monkeypatch.chdir(tmp_path)
    bertsmith("tokenizer", "extend", "--from", "first", "--texts", text, "--out", "tokens",
              "--add", 60)  # fmt: skip
    for folder, model in ((tmp_path, "first"), (tmp_path / "tokens", tmp_path / "first")):
        monkeypatch.chdir(folder)
        told = bertsmith("corpus", "build", text, "--tokenizer", tmp_path / "tokens", "--out",
                         tmp_path / f"corpus-of-{folder.name}", "--processes", 1)  # fmt: skip
        assert f"--recipe continue --from {model} --corpus" in told
    monkeypatch.chdir(tmp_path)
    for tokenizer in ("tokens", "first"):
        out = f"shards-of-{tokenizer}"
        bertsmith("corpus", "build", text, "--tokenizer", tokenizer, "--shard", "1/1", "--out", out,
                  "--processes", 1)  # fmt: skip
        assert "--recipe continue --from first --corpus" in bertsmith("corpus", "merge", out)


def test_resumes_bit_for_bit_without_the_source_but_not_with_another(
    bertsmith, refused, general, corpus_dir, tmp_path
):
    source, out = shutil.copytree(general, tmp_path / "source"), tmp_path / "run"
    words = command(source, corpus_dir, out, "--steps", 4, "--checkpoint-every", 2)
    bertsmith(*words)
    # As if it had been stopped after the first of two checkpoints.
    shutil.rmtree(out / "checkpoints" / "step-00000004")
    run = json.loads((out / "run.json").read_text())
    del run["summary"]
    (out / "run.json").write_text(json.dumps(run))
    weights = (out / "model.safetensors").read_bytes()
    (out / "model.safetensors").unlink()
    other = [general if word == source else word for word in words]
    assert f"--from was '{source}', is now '{general}'" in refused(*other, "--resume")
    place = words.index("--from")
    alone = [*words[:place], *words[place + 2 :], "--preset", "tiny"]
    assert "--from was" in refused(*alone, "--resume", worded=False)  # a checksum
    shutil.rmtree(source)
    result = json.loads(bertsmith(*words, "--resume", "--json"))
    assert (out / "model.safetensors").read_bytes() == weights
    assert result["source"]["folder"] == str(source)
    assert "held_out_mlm_loss" in result["before"]

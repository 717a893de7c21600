"""`bertsmith pretrain gpt` trains, resumes bit for bit, and writes a GPT of transformers."""

import json

import pytest
import torch
import transformers
from refusals import refuses
from tiny_runs import KilledError, StopAtStep, small_corpus
from tiny_tokenizers import tiny_wordpiece

from bertsmith.data.corpus import Corpus
from bertsmith.errors import ConfigError, SettingError
from bertsmith.lineage.gpt_folder import load_gpt
from bertsmith.lineage.pretraining_run import SystemJob, pretrain_system
from bertsmith.lineage.settings import GptSettings
from bertsmith.lineage.system import SYSTEMS
from bertsmith.model.weight_formats.safetensors_file import read_safetensors
from bertsmith.training.journal import read_journal
from bertsmith.training.settings import TrainingSettings

SIZES = (
    "--preset", "tiny", "--max-length", "19", "--max-position-embeddings", "40",
    "--batch-size", "4", "--eval-rows", "6", "--precision", "fp32", "--threads", "1",
)  # fmt: skip


def make_job(corpus_dir, **training):
    settings = {"steps": 12, "batch_size": 4, "eval_rows": 6, "threads": 1, "precision": "fp32"}
    model = GptSettings("tiny", max_length=19, max_position_embeddings=40)
    return SystemJob("gpt", corpus_dir, model, TrainingSettings(**settings | training))


@pytest.fixture(scope="module")
def trained(corpus_dir, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "gpt"
    result = pretrain_system(make_job(corpus_dir), out)
    return out, result


def losses(out):
    names = ("step", "loss", "gradient_norm", "held_out_loss")
    entries = read_journal(out / "journal.jsonl")
    return [{name: entry[name] for name in names if name in entry} for entry in entries]


def test_it_learns(trained):
    out, result = trained
    first = losses(out)[0]["held_out_loss"]
    assert result["held_out_lm_loss"] < first - 0.3
    assert result["steps"] == 12 and result["real_tokens"] > 12 * 4 * 5
    assert 0 < result["held_out_lm_bits_per_byte"] < 20


def test_transformers_opens_it_with_the_same_loss(trained, corpus_dir):
    out, _ = trained
    ours, theirs = load_gpt(out), transformers.AutoModelForCausalLM.from_pretrained(out)
    assert isinstance(theirs, transformers.GPT2LMHeadModel)
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    assert len(tokenizer) == theirs.config.vocab_size
    text = Corpus.open(corpus_dir).token_ids(0, 15).astype(int).tolist()
    ids = torch.tensor([[tokenizer.cls_token_id, *text]])
    assert theirs.config.bos_token_id == tokenizer.cls_token_id
    assert theirs.config.eos_token_id == tokenizer.sep_token_id
    with torch.no_grad():
        found = [model(ids, labels=ids).loss for model in (ours, theirs)]
    torch.testing.assert_close(*found, atol=1e-5, rtol=0.0)


@pytest.mark.parametrize("name", SYSTEMS)
def test_minutes_in_which_no_step_fits_are_refused_without_eval_text_too(name, tmp_path):
    documents = [f"this is document {number}. it has sentences." for number in range(9)]
    corpus = small_corpus(tmp_path / "corpus", tiny_wordpiece(), documents, held_out=0.0)
    settings = SYSTEMS[name].settings("tiny", max_length=19)
    training = TrainingSettings(minutes=1e-7, batch_size=4, threads=1, precision="fp32")
    with refuses(ConfigError, "--minutes", "none fits in", worded=False):  # it has measured times
        pretrain_system(SystemJob(name, corpus, settings, training), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("stop", [3, 5])
def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(trained, corpus_dir, tmp_path, stop):
    whole, _ = trained
    job = make_job(corpus_dir, checkpoint_every=4)  # the stop at 3 is before the first
    out = tmp_path / "stopped"
    with pytest.raises(KilledError):
        pretrain_system(job, out, callbacks=[StopAtStep(stop)])
    pretrain_system(job, out, resume=True)
    assert losses(out) == losses(whole)
    ours, expected = (read_safetensors(path / "model.safetensors") for path in (out, whole))
    assert all(torch.equal(value, expected[name]) for name, value in ours.items())


def test_the_folder_says_what_it_is(trained):
    out, _ = trained
    run = json.loads((out / "run.json").read_text(encoding="utf-8"))
    assert run["command"] == "pretrain gpt" and run["config"]["model"]["n_layer"] == 2
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "pipeline_tag: text-generation" in card and "2 layers, 128 wide" in card
    assert "bertsmith generate gpt" in card and (out / "curves.svg").exists()


def test_the_line_trains_and_resumes(bertsmith, refused, corpus_dir, tmp_path):
    out = tmp_path / "gpt"
    line = ("pretrain", "gpt", "--corpus", corpus_dir, "--out", out, *SIZES, "--steps", "3")
    printed = bertsmith(*line)
    assert "next token loss" in printed and "bits per byte" in printed
    assert f"bertsmith generate {out}" in printed
    assert "holds an earlier run" in refused(*line)
    assert "complete" in refused(*line, "--resume")
    result = json.loads(bertsmith(*line, "--overwrite", "--json"))
    assert result["steps"] == 3


def test_a_run_of_minutes_ends_in_time(bertsmith, corpus_dir, tmp_path):
    line = ("pretrain", "gpt", "--corpus", corpus_dir, "--out", tmp_path / "gpt", *SIZES)
    result = json.loads(bertsmith(*line, "--minutes", "0.02", "--json"))
    assert result["steps"] >= 1 and result["elapsed_seconds"] < 6


def test_other_settings_are_refused_on_resuming(trained, corpus_dir, tmp_path):
    job = make_job(corpus_dir, checkpoint_every=4)
    out = tmp_path / "stopped"
    with pytest.raises(KilledError):
        pretrain_system(job, out, callbacks=[StopAtStep(6)])
    other = make_job(corpus_dir, checkpoint_every=4, seed=1)
    with refuses(ConfigError, "--seed was 0, is now 1"):
        pretrain_system(other, out, resume=True)


def test_commands_of_a_bert_refuse_a_gpt_and_name_its_own(trained, refused, corpus_dir, tmp_path):
    out, _ = trained
    assert "commands are generate" in refused("fill", out, "a [MASK]")
    assert "commands are generate" in refused("predict", out, "a text")
    line = ("pretrain", "--corpus", corpus_dir, "--out", tmp_path / "bert", "--from", out)
    assert "commands are generate" in refused(*line, "--steps", "1")


def test_settings_that_cannot_be_are_refused():
    with refuses(SettingError, "--max-length", "3"):
        GptSettings(max_length=3)
    with refuses(SettingError, "--max-position-embeddings", "100", "--max-length, 128"):
        GptSettings(max_position_embeddings=100)
    with refuses(SettingError, "--max-position-embeddings", "0", "--max-length, 128"):
        GptSettings(max_position_embeddings=0)
    with refuses(SettingError, "--dropout", "1"):
        GptSettings(dropout=1.0)

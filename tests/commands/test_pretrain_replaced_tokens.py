"""Replaced token detection from the command line: two folders, resuming, going on, fine-tuning."""

import json
import shutil

import pytest
import torch
import transformers
from refusals import refuses
from tiny_models import write_reviews
from tiny_runs import LENGTHS, SIZE, KilledError, StopAtStep, small_job

from bertsmith.commands.pretrain import describe_run
from bertsmith.errors import CheckpointError
from bertsmith.model.electra_pair import ElectraPair, build_trained
from bertsmith.model.loading import load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.pretraining.run import run_pretraining
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.training.journal import read_journal


def command(corpus_dir, out, *more):
    words = ["pretrain", *SIZE, "--corpus", corpus_dir, "--out", out, "--steps", 2]
    return [*words, "--family", "electra", *more]


def going_on(corpus_dir, source, out, *more):
    words = ["pretrain", *LENGTHS, "--corpus", corpus_dir, "--out", out, "--steps", 2]
    return [*words, "--from", source, *more]


def job(corpus_dir, **training):
    return small_job(corpus_dir, "electra", **{"steps": 8, **training})


@pytest.fixture(scope="module")
def trained(corpus_dir, tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / "run"
    run_pretraining(job(corpus_dir, checkpoint_every=3), out)
    return out


def test_electra_learns_it_where_nothing_is_said(typed, corpus_dir, tmp_path):
    out = tmp_path / "run"
    printed = typed(*command(corpus_dir, out, "--generator-size", 0.5))
    for part in ("eval       masked LM loss", "replaced tokens", "recall",
                 "area under the ROC curve"):  # fmt: skip
        assert part in printed.out
    assert "bertsmith fill" not in printed.out  # after two steps
    assert "replaced tokens" in printed.err
    step = read_journal(out / "journal.jsonl")[1]
    assert step["loss"] == pytest.approx(step["mlm_loss"] + 50 * step["rtd_loss"])
    config = json.loads((out / "run.json").read_text())["config"]
    assert config["pretraining"]["objective"] == "replaced_token"
    ids = torch.randint(5, 100, (3, 32), generator=torch.Generator().manual_seed(0))
    for name, folder in (
        ("ElectraForPreTraining", out), ("ElectraForMaskedLM", out / "generator")
    ):  # fmt: skip
        theirs, info = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
        assert not info["missing_keys"] and not info["unexpected_keys"]
        with torch.no_grad():
            found, expected = load_model(folder)(ids).logits, theirs.eval()(ids).logits
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
        assert load_tokenizer(folder).vocab_size == theirs.config.vocab_size
    assert load_model(out / "generator").config.hidden_size == 64
    assert "[MASK]" in typed("fill", out / "generator", "baba [MASK] ceba").out


def test_goes_on_with_both(bertsmith, corpus_dir, trained, tmp_path):
    out = tmp_path / "run"
    still = ("--learning-rate", "1e-12", "--weight-decay", 0, "--json")
    result = json.loads(bertsmith(*going_on(corpus_dir, trained, out, *still)))
    assert result["before"]["held_out_rtd_loss"] == pytest.approx(
        result["held_out_rtd_loss"], abs=1e-5
    )
    weights = set(result["source"]["weights"])
    assert weights == {"model.safetensors", "generator/model.safetensors"}
    assert result["source"]["new"] == []
    for folder in ("", "generator"):
        before, after = load_model(trained / folder), load_model(out / folder)
        for mine, theirs in zip(before.parameters(), after.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=0)


def test_goes_on_with_new_tokens_and_positions_in_both(bertsmith, trained, tmp_path):
    text, tokens, corpus = tmp_path / "text.txt", tmp_path / "tokens", tmp_path / "corpus"
    documents = [f"Zanzibar grows cloves. Clove {i} is from Zanzibar. " * 3 for i in range(29)]
    text.write_text("\n\n".join(documents), encoding="utf-8")
    bertsmith("tokenizer", "extend", "--from", trained, "--texts", text, "--add", 71,
              "--held-out-share", 0.2, "--out", tokens)  # fmt: skip
    bertsmith("corpus", "build", text, "--tokenizer", tokens, "--out", corpus,
              "--held-out", 0.2, "--processes", 1)  # fmt: skip
    out = tmp_path / "run"
    bertsmith(*going_on(corpus, trained, out, "--max-position-embeddings", 41))
    models = [load_model(folder) for folder in (out, out / "generator")]
    for model in models:
        assert model.config.vocab_size == load_tokenizer(tokens).vocab_size
        assert model.config.max_position_embeddings == 41
    assert models[0].config.vocab_size > load_tokenizer(trained).vocab_size
    assert torch.equal(*(model.embeddings.word.weight for model in models))


def test_plain_masked_lm_needs_no_generator_and_goes_on(bertsmith, corpus_dir, trained, tmp_path):
    out, again = tmp_path / "run", tmp_path / "again"
    alone = shutil.copytree(trained, tmp_path / "a", ignore=shutil.ignore_patterns("generator"))
    bertsmith(*going_on(corpus_dir, alone, out, "--objective", "masked_lm"))
    assert not (out / "generator").exists()
    bertsmith(*going_on(corpus_dir, out, again))  # with what the folder has learnt
    for folder in (out, again):
        assert set(load_model(folder).heads) == {"masked_lm"}


def test_both_models_count(bertsmith, trained):
    both = sum(each.numel() for each in build_trained(read_folder(trained)).parameters())
    assert json.loads(bertsmith("params", trained, "--json"))["parameters"] == both


def test_a_resumed_run_is_the_run_that_was_never_stopped(corpus_dir, trained, tmp_path):
    begun, out = job(corpus_dir, checkpoint_every=3), tmp_path / "stopped"
    with pytest.raises(KilledError):
        run_pretraining(begun, out, callbacks=[StopAtStep(5)])
    damaged = shutil.copytree(out, tmp_path / "damaged")
    (damaged / "checkpoints" / "step-00000003" / "generator" / "config.json").write_text("{}")
    with refuses(CheckpointError, "step-00000003: ", "generator/config.json"):
        run_pretraining(begun, damaged, resume=True)
    result = run_pretraining(begun, out, resume=True)
    assert f"bertsmith fill {out}/generator" in describe_run({**result, "held_out_mlm_loss": 0.0})
    for name in ("model.safetensors", "generator/model.safetensors"):
        assert (out / name).read_bytes() == (trained / name).read_bytes()
    names = ("step", "mlm_loss", "rtd_loss", "held_out_loss", "held_out_rtd_auc")
    journals = [
        [[entry.get(name) for name in names] for entry in read_journal(folder / "journal.jsonl")]
        for folder in (trained, out)
    ]
    assert journals[0] == journals[1]
    run_pretraining(job(corpus_dir, steps=1), out, overwrite=True)
    assert not (out / "earlier-run").exists()
    assert isinstance(build_trained(read_folder(out)), ElectraPair)


def test_refusals(refused, corpus_dir, trained, tmp_path):
    out = tmp_path / "out"
    alone = shutil.copytree(trained, tmp_path / "a", ignore=shutil.ignore_patterns("generator"))
    beside = going_on(corpus_dir, trained, out, "--generator-size", 0.5)
    headless = command(corpus_dir, out, "--objective", "replaced_token", "--family", "bert")
    shares = command(corpus_dir, out, "--mask-share", 0.9, "--keep-share", 0)
    for words, told in (
        (going_on(corpus_dir, alone, out), f"({alone}/generator), or pass --objective masked_lm"),
        (beside, f"--generator-size: found 0.5 beside --from {trained}"),
        (headless, "--objective masked_lm, or --family electra"),
        (shares, "--keep-share: found 0.9; allowed is 1"),
        (("fill", trained, "a [MASK]"), f": {trained / 'generator'}."),
    ):
        assert told in refused(*words)
    assert not out.exists()


def test_the_discriminator_serves_alone(bertsmith, trained, tmp_path):
    out, task, rows = tmp_path / "out", tmp_path / "task", write_reviews(tmp_path / "rows.csv", 20)
    printed = bertsmith("compress", trained, "--num-layers", 1, "--out", out)
    assert "left out: generator/, so the folder can be fine-tuned" in printed
    bertsmith("finetune", "classify", "--model", trained, "--train", rows, "--eval", rows, "--out",
              task, "--steps", 1, "--max-length", 16, "--threads", 1)  # fmt: skip
    assert set(load_model(task).heads) == {"classify"}
    assert not (out / "generator").exists() and not (task / "generator").exists()

"""Replaced token detection from the command line: two folders, resuming, going on, fine-tuning."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tiny_models import write_reviews
from torch.utils.flop_counter import FlopCounterMode

from bertsmith import cli
from bertsmith.commands.pretrain import describe
from bertsmith.errors import BertsmithError, ConfigError
from bertsmith.model.accounting import computed_work, count_parameters, flops_of, total
from bertsmith.model.electra_pair import ElectraPair, build_trained
from bertsmith.model.loading import load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.pretraining.build import build_model, build_objective
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.resolve import resolve_unmeasured
from bertsmith.pretraining.run import pretrain
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.training.journal import read_journal
from bertsmith.training.settings import TrainingSettings

SIZE = [
    "--preset", "tiny", "--max-length", "16", "--batch-size", "4", "--eval-rows", "4",
    "--max-position-embeddings", "32", "--precision", "fp32", "--threads", "1",
]  # fmt: skip


def command(corpus_dir: Path, out: Path, *more: str) -> list[str]:
    words = ["pretrain", *SIZE, "--corpus", str(corpus_dir), "--out", str(out), *more]
    return words if "--from" in more else [*words, "--family", "electra"]


def job(corpus_dir: Path, **training: Any) -> PretrainJob:
    settings: dict[str, Any] = {"batch_size": 4, "eval_rows": 4, "threads": 1, "precision": "fp32"}
    return PretrainJob(
        corpus_dir,
        ModelSettings(family="electra", preset="tiny", max_position_embeddings=32),
        PretrainingSettings(16),
        TrainingSettings(**{**settings, "steps": 8, **training}),
    )


class StopAtStep:
    """Ends the run as a user would, when it has come so far."""

    def __init__(self, step: int) -> None:
        self.step = step

    def begin(self, computing: str) -> None:
        pass

    def write(self, entry: dict[str, Any], status: object) -> None:
        if entry["step"] == self.step and "learning_rate" in entry:
            raise BertsmithError("stopped")


@pytest.fixture(scope="module")
def trained(corpus_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "run"
    pretrain(job(corpus_dir, checkpoint_every=3), out)
    return out


def refused(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit):
        cli.main(words)
    return capsys.readouterr().err


def test_electra_learns_it_where_nothing_is_said(
    corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    cli.main(command(corpus_dir, out, "--steps", "3", "--generator-size", "0.5"))
    printed = capsys.readouterr()
    assert "eval       masked LM loss" in printed.out
    assert "replaced tokens" in printed.out and "recall" in printed.out
    assert "area under the ROC curve" in printed.out
    assert "bertsmith fill" not in printed.out  # after three steps
    assert "replaced tokens" in printed.err
    step = read_journal(out / "journal.jsonl")[1]
    assert step["loss"] == pytest.approx(step["mlm_loss"] + 50 * step["rtd_loss"])
    assert json.loads((out / "run.json").read_text())["config"]["pretraining"]["objective"] == (
        "replaced_token"
    )
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
    cli.main(["fill", str(out / "generator"), "baba [MASK] ceba"])
    assert "[MASK]" in capsys.readouterr().out


def going_on(corpus_dir: Path, source: Path, out: Path, *more: str) -> list[str]:
    without = [word for word in SIZE if word not in ("--preset", "tiny")]
    return ["pretrain", *without, "--corpus", str(corpus_dir), "--out", str(out), "--from",
            str(source), "--steps", "2", *more]  # fmt: skip


def test_goes_on_with_both(
    corpus_dir: Path, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    still = ["--learning-rate", "1e-12", "--weight-decay", "0", "--json"]
    cli.main(going_on(corpus_dir, trained, out, *still))
    result = json.loads(capsys.readouterr().out)
    assert result["before"]["held_out_rtd_loss"] == pytest.approx(
        result["held_out_rtd_loss"], abs=1e-5
    )
    assert set(result["source"]["weights"]) == {
        "model.safetensors", "generator/model.safetensors"
    }  # fmt: skip
    assert result["source"]["new"] == []
    for folder in ("", "generator"):
        before, after = load_model(trained / folder), load_model(out / folder)
        for mine, theirs in zip(before.parameters(), after.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=0)
    longer = tmp_path / "longer"
    cli.main(going_on(corpus_dir, trained, longer, "--max-position-embeddings", "41"))
    assert load_model(longer).config.max_position_embeddings == 41
    assert load_model(longer / "generator").config.max_position_embeddings == 41


def test_goes_on_with_new_pieces_in_both(
    corpus_dir: Path, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, old = tmp_path / "text.txt", load_tokenizer(trained)
    documents = [f"Zanzibar grows cloves. Clove {i} is from Zanzibar. " * 3 for i in range(29)]
    text.write_text("\n\n".join(documents), encoding="utf-8")
    tokens, corpus, out = tmp_path / "tokens", tmp_path / "corpus", tmp_path / "run"
    cli.main(["tokenizer", "extend", "--from", str(trained), "--texts", str(text), "--add", "71",
              "--held-out-share", "0.2", "--out", str(tokens)])  # fmt: skip
    cli.main(["corpus", "build", str(text), "--tokenizer", str(tokens), "--out", str(corpus),
              "--held-out", "0.2", "--processes", "1"])  # fmt: skip
    cli.main(going_on(corpus, trained, out))
    capsys.readouterr()
    sizes = {load_model(folder).config.vocab_size for folder in (out, out / "generator")}
    assert sizes == {load_tokenizer(tokens).vocab_size} and sizes != {old.vocab_size}
    shared = [load_model(folder).embeddings.word.weight for folder in (out, out / "generator")]
    assert torch.equal(*shared)


def test_both_models_count(
    corpus_dir: Path, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["params", str(trained), "--json"])
    found = json.loads(capsys.readouterr().out)
    both = build_trained(read_folder(trained))
    assert found["parameters"] == sum(p.numel() for p in both.parameters())
    generator = sum(p.numel() for n, p in both.named_parameters() if n.startswith("generator."))
    assert found["components"]["generator"]["parameters"] == generator
    head = sum(p.numel() for p in both.heads.parameters())
    assert found["encoder"] == found["parameters"] - generator - head
    assert total(count_parameters(both)) == found["parameters"]
    words = ["tiny", "--family", "electra", "--vocab-size", str(found["config"]["vocab_size"])]
    cli.main(["params", *words, "--max-positions", "32", "--json"])
    by_size = json.loads(capsys.readouterr().out)
    assert by_size["components"] == found["components"]


def test_a_plan_has_both(corpus_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*SIZE, "--corpus", str(corpus_dir), "--steps", "5", "--family", "electra", "--json"]
    cli.main(["plan", *words, "--measure-seconds", "0.1"])
    found = json.loads(capsys.readouterr().out)
    assert found["step"]["flops"]["generator's layers"] > 0
    assert found["step"]["seconds"] > 0
    assert found["memory"]["optimizer"] >= 8 * found["parameters"]


@pytest.mark.parametrize(
    ("family", "said", "shares"),
    [
        ("electra", (), (0.85, 0.0, 0.15)),
        ("electra", (1.0, None, 0.0), (1.0, 0.0, 0.0)),
        ("electra", (0.8, 0.1, 0.1), (0.8, 0.1, 0.1)),
        ("electra", (0.9, None, 0.0), "found 0.9"),
        ("electra", (0.7,), "found 0.9"),
        ("bert", (), (0.8, 0.1, 0.1)),
        ("bert", (0.9, None, 0.0), (0.9, 0.1, 0.0)),
        ("bert", (1.0, None, 0.0), "found 1.1"),
    ],
)
def test_shares_that_are_not_said_are_the_familys(
    corpus_dir: Path, family: Any, said: tuple[float, ...], shares: tuple[float, ...] | str
) -> None:
    names = ("mask_share", "random_share", "keep_share")
    start = replace(job(corpus_dir), model=ModelSettings("tiny", family))

    def learnt() -> PretrainingSettings:
        settings = PretrainingSettings(**dict(zip(names, said, strict=False)))
        return resolve_unmeasured(replace(start, pretraining=settings)).pretraining

    if isinstance(shares, str):
        with pytest.raises(ConfigError, match=f"keep_share: {shares}"):
            learnt()
    else:
        assert tuple(getattr(learnt(), name) for name in names) == shares


def test_shares_change_with_the_steps(corpus_dir: Path) -> None:
    said = PretrainingSettings(
        16, masking_schedule_steps=4, final_mask_share=0.7, final_random_share=0.15
    )
    learnt = resolve_unmeasured(replace(job(corpus_dir), pretraining=said)).pretraining
    rules = [learnt.masking_rule(step) for step in (1, 3, 5, 9)]
    assert [(rule.mask_share, rule.random_share) for rule in rules] == [
        pytest.approx(shares) for shares in [(0.85, 0), (0.775, 0.075), (0.7, 0.15), (0.7, 0.15)]
    ]


def test_a_resumed_run_is_the_run_that_was_never_stopped(
    corpus_dir: Path, trained: Path, tmp_path: Path
) -> None:
    begun, out = job(corpus_dir, checkpoint_every=3), tmp_path / "stopped"
    with pytest.raises(BertsmithError, match="stopped"):
        pretrain(begun, out, callbacks=[StopAtStep(5)])
    damaged = shutil.copytree(out, tmp_path / "damaged")
    (damaged / "checkpoints" / "step-00000003" / "generator" / "config.json").write_text("{}")
    with pytest.raises(BertsmithError, match=r"generator/config\.json is altered"):
        pretrain(begun, damaged, resume=True)
    result = pretrain(begun, out, resume=True)
    assert f"bertsmith fill {out}/generator" in describe({**result, "held_out_mlm_loss": 0.0})
    for name in ("model.safetensors", "generator/model.safetensors"):
        assert (out / name).read_bytes() == (trained / name).read_bytes()
    names = ("step", "mlm_loss", "rtd_loss", "held_out_loss", "held_out_rtd_auc")
    journals = [
        [[entry.get(name) for name in names] for entry in read_journal(folder / "journal.jsonl")]
        for folder in (trained, out)
    ]
    assert journals[0] == journals[1]
    pretrain(job(corpus_dir, steps=1), out, overwrite=True)
    assert not (out / "earlier-run").exists()
    assert isinstance(build_trained(read_folder(out)), ElectraPair)


def test_plain_masked_lm_is_left_and_needs_no_generator(
    corpus_dir: Path, trained: Path, tmp_path: Path
) -> None:
    out, again = tmp_path / "run", tmp_path / "again"
    alone = shutil.copytree(trained, tmp_path / "a", ignore=shutil.ignore_patterns("generator"))
    cli.main(going_on(corpus_dir, alone, out, "--objective", "masked_lm"))
    assert not (out / "generator").exists()
    cli.main(going_on(corpus_dir, out, again))  # with what the folder has learnt
    for folder in (out, again):
        assert set(load_model(folder).heads) == {"masked_lm"}


def test_refusals(
    corpus_dir: Path, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    alone = shutil.copytree(trained, tmp_path / "a", ignore=shutil.ignore_patterns("generator"))
    more = ["--corpus", str(corpus_dir), "--out", str(out)]
    electra = command(corpus_dir, out, "--steps", "2", "--objective", "replaced_token")
    use = f"Use its generator, which does: {trained / 'generator'}."
    for words, told in (
        (going_on(corpus_dir, alone, out), "there is no generator/"),
        (
            going_on(corpus_dir, trained, out, "--generator-size", "0.5"),
            "generator_size: found 0.5 beside --from",
        ),
        ([*electra[:-1], "bert"], "family bert have no head for it. Pass --objective masked_lm"),
        (["fill", str(trained), "a [MASK]"], use),
        (["distill", "pretraining", "--teacher", str(trained), "--steps", "1", *more], use),
        (["compress", str(trained), "--prune-heads", "0.5", *more], use),
    ):
        assert told in refused(capsys, words)
    assert not out.exists()


def test_the_discriminator_serves_alone(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, rows = tmp_path / "out", str(write_reviews(tmp_path / "rows.csv", 20))
    cli.main(["compress", str(trained), "--num-layers", "1", "--out", str(out)])
    assert "left out: generator/, so the folder serves fine-tuning" in capsys.readouterr().out
    cli.main(["finetune", "classify", "--model", str(trained), "--train", rows, "--eval", rows,
              "--out", str(tmp_path / "task"), "--steps", "1", "--max-length", "16",
              "--threads", "1"])  # fmt: skip
    assert set(load_model(tmp_path / "task").heads) == {"classify"}
    assert not (out / "generator").exists() and not (tmp_path / "task" / "generator").exists()


def test_operations_are_those_that_torch_counts(corpus_dir: Path) -> None:
    asked = resolve_unmeasured(job(corpus_dir))
    objective = build_objective(asked)
    model = build_model(asked, objective).train()
    (batch,) = objective.micro_batches(1)
    with FlopCounterMode(display=False) as counter:
        torch.stack([term.sum for term in objective.losses(model, batch).values()]).sum().backward()
    work = computed_work(batch, len(batch.targets["masked_labels"]))
    assert sum(flops_of(model, work).values()) == counter.get_total_flops()

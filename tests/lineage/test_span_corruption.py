"""A T5 learns to write what is missing, and `restore` puts it back."""

import itertools
import json

import numpy as np
import pytest
import torch
import transformers
from tiny_runs import KilledError, StopAtStep

from bertsmith.data.corpus import Corpus
from bertsmith.lineage.pretraining_run import SystemJob, pretrain_system
from bertsmith.lineage.settings import T5Settings
from bertsmith.lineage.span_corruption import NUM_SENTINELS, SpanCorruption, corrupt, restore
from bertsmith.lineage.t5_folder import load_t5
from bertsmith.model.weight_formats.safetensors_file import read_safetensors
from bertsmith.training.journal import read_journal
from bertsmith.training.settings import TrainingSettings

FIRST = 1099


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 13, 64, 127, 512, 1200])
def test_a_corruption_is_undone_by_its_inverse(length):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        ids = rng.integers(5, 1000, length)
        source, target = corrupt(ids, FIRST, rng)
        assert restore(source, target, FIRST).tolist() == ids.tolist()
        sentinels = source[source > FIRST - NUM_SENTINELS]
        assert sentinels.tolist() == (FIRST - np.arange(len(sentinels))).tolist()
        assert target[target > FIRST - NUM_SENTINELS].tolist() == sentinels.tolist()
        assert len(source) + len(target) == length + 2 * len(sentinels)
        num_missing = len(target) - len(sentinels)
        assert num_missing == max(1, min(length - 1, round(0.15 * length)))


def test_gaps_have_three_tokens_in_the_mean_and_are_anywhere():
    rng = np.random.default_rng(0)
    targets, firsts = [], []
    for _ in range(300):
        source, target = corrupt(np.arange(5, 105), FIRST, rng)
        targets.append((len(target), int((target > 1000).sum())))
        firsts.append(int(np.argmax(source > 1000)))
    tokens, gaps = np.array(targets).sum(0)
    assert (tokens - gaps) / gaps == pytest.approx(3.0)
    assert len(set(firsts)) > 30


def test_rows_do_not_depend_on_how_a_step_is_divided(corpus_dir):
    train, held_out = Corpus.open(corpus_dir), Corpus.open(corpus_dir, "held_out")
    sides = []
    for rows in (7, 3):
        objective = SpanCorruption(
            train, held_out, 17, batch_size=7, micro_batch_size=rows, seed=2, eval_rows=4
        )
        sides.append(
            {
                place: (source.tolist(), labels.tolist())
                for batch in objective.micro_batches(3)
                for place, source, labels in zip(
                    batch.step_indices,
                    batch.source.input_ids.split(batch.source.lengths),
                    batch.labels.split(batch.target.lengths),
                    strict=True,
                )
            }
        )
    assert sides[0] == sides[1] and len(sides[0]) == 7
    end, first = train.tokenizer().sep_id, train.vocab_size + NUM_SENTINELS - 1
    window = next(iter(objective.train.read(14, 1)))
    source, labels = (np.array(ids[:-1]) for ids in sides[0][0])
    assert restore(source, labels, first).tolist() == window.ids.tolist()
    assert sides[0][0][0][-1] == sides[0][0][1][-1] == end


def make_job(corpus_dir, **training):
    settings = {"steps": 12, "batch_size": 4, "eval_rows": 6, "threads": 1, "precision": "fp32"}
    model = T5Settings("tiny", max_length=19)
    return SystemJob("t5", corpus_dir, model, TrainingSettings(**settings | training))


def losses(out):
    names = ("step", "loss", "gradient_norm", "held_out_loss")
    entries = read_journal(out / "journal.jsonl")
    return [{name: entry[name] for name in names if name in entry} for entry in entries]


def test_it_learns_resumes_bit_for_bit_and_is_a_t5_of_transformers(corpus_dir, tmp_path):
    whole, out = tmp_path / "whole", tmp_path / "stopped"
    result = pretrain_system(make_job(corpus_dir), whole)
    assert result["held_out_span_loss"] < losses(whole)[0]["held_out_loss"] - 0.3
    job = make_job(corpus_dir, checkpoint_every=4)
    with pytest.raises(KilledError):
        pretrain_system(job, out, callbacks=[StopAtStep(6)])
    pretrain_system(job, out, resume=True)
    assert losses(out) == losses(whole)
    ours, expected = (read_safetensors(path / "model.safetensors") for path in (out, whole))
    assert all(torch.equal(value, expected[name]) for name, value in ours.items())
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(out)
    assert isinstance(theirs, transformers.T5ForConditionalGeneration)
    assert theirs.config.vocab_size == Corpus.open(corpus_dir).vocab_size + NUM_SENTINELS


def test_the_lines_train_and_teach_it_a_task(corpus_dir, tmp_path, bertsmith, refused):
    t5, out, table = tmp_path / "t5", tmp_path / "task", tmp_path / "pairs.csv"
    shared = ("--batch-size", "4", "--precision", "fp32", "--threads", "1", "--steps", "2")
    printed = bertsmith(
        "pretrain", "t5", "--corpus", corpus_dir, "--out", t5, "--preset", "tiny",
        "--max-length", "19", "--feed-forward-proj", "gated-gelu", *shared,
    )  # fmt: skip
    assert "missing spans" in printed and f"finetune translate --model {t5}" in printed
    assert "text2text-generation" in (t5 / "README.md").read_text(encoding="utf-8")
    assert "commands are translate" in refused("predict", t5, "a text")
    words = load_vocabulary(corpus_dir)
    rows = [f"{a} {b},{b}" for a, b in itertools.pairwise(words)]
    table.write_text("source,target\n" + "\n".join(rows) + "\n", encoding="utf-8")
    bertsmith(
        "finetune", "translate", "--model", t5, "--train", table, "--eval", table, "--out", out,
        *shared,
    )  # fmt: skip
    assert load_t5(out).config == load_t5(t5).config
    line = ("translate", out, f"{words[0]} {words[1]}", "--device", "cpu", "--json")
    assert json.loads(bertsmith(*line, "--max-new-tokens", "5"))["source"].startswith(words[0])


def load_vocabulary(corpus_dir):
    tokenizer = Corpus.open(corpus_dir).tokenizer()
    return [tokenizer.id_to_token(number) for number in range(5, 30)]

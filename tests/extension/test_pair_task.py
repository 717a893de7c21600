"""A loss of pre-training in one class: is a row from the first half of the corpus or the second?"""

from dataclasses import replace

import numpy as np
import torch.nn.functional as F

from bertsmith.model.layers import mean_over_sequences
from bertsmith.model.pretraining_catalog import PAIR_TASKS, PairTaskEntry
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.pair_task import PairTask
from bertsmith.pretraining.run import run_pretraining
from bertsmith.pretraining.segments import windows_around
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.pretraining.summary import describe_pretraining
from bertsmith.training.journal import read_journal
from bertsmith.training.objective import LossTerm
from bertsmith.training.settings import TrainingSettings


class WhichHalf(PairTask):
    """The label is read off the first number of a row's mean vector, so there is no head."""

    def draw(self, corpus, anchors, lengths, short_seq_prob, rng):
        rows = windows_around(corpus, anchors, lengths.one_segment).segments()
        return replace(rows, labels=(anchors > corpus.num_tokens // 2).astype(np.int64))

    def loss(self, model, hidden, batch):
        logits = mean_over_sequences(hidden, batch)[:, 0].float()
        labels = batch.targets["half_labels"]
        loss = F.binary_cross_entropy_with_logits(logits, labels.float(), reduction="sum")
        return LossTerm(loss, ((logits > 0) == labels).sum(), len(labels))


def test_a_loss_of_its_own_is_learned_and_reported(corpus_dir, tmp_path, monkeypatch):
    half = PairTaskEntry(
        implementation=f"{__name__}:WhichHalf", term="half", title="half of the corpus",
        has_head=False, chance=0.5,
    )  # fmt: skip
    monkeypatch.setitem(PAIR_TASKS, "half", half)
    job = PretrainJob(
        corpus_dir, ModelSettings(preset="tiny"), PretrainingSettings(max_length=19, pairs="half"),
        TrainingSettings(steps=40, batch_size=13, eval_rows=13, threads=1, precision="fp32"),
    )  # fmt: skip
    result = run_pretraining(job, tmp_path / "out")
    assert result["held_out_loss"] == result["held_out_mlm_loss"] + result["held_out_half_loss"]
    assert any("half of the corpus loss" in line for line in describe_pretraining(result))
    journal = read_journal(tmp_path / "out" / "journal.jsonl")
    losses = [entry["half_loss"] for entry in journal if "half_loss" in entry]
    assert sum(losses[-10:]) < 0.9 * sum(losses[:10])

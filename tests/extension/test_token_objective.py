"""An objective on the tokens of a corpus in one class: masked LM with the focal loss."""

import json

import pytest
import torch
import torch.nn.functional as F

from bertsmith.errors import ConfigError
from bertsmith.model.pretraining_catalog import OBJECTIVES, ObjectiveEntry
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.run import run_pretraining
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.training.curves import build_charts
from bertsmith.training.journal import read_journal
from bertsmith.training.objective import LossTerm, title_of_term
from bertsmith.training.settings import TrainingSettings


class FocalLM(Pretraining):
    """Masked LM in which easy tokens weigh less (focal loss, Lin et al. 2017)."""

    def counts(self, batch):
        return {"focal": len(batch.targets["masked_labels"])}

    def losses(self, model, batch):
        labels = batch.targets["masked_labels"]
        hidden = model.encode(batch)[batch.targets["masked_positions"]]
        head = model.heads["masked_lm"]
        logits = head(hidden, model.embeddings.word.weight).float()
        surprisal = F.cross_entropy(logits, labels, reduction="none")
        loss = ((1 - torch.exp(-surprisal)) ** 2 * surprisal).sum()
        return {"focal": LossTerm(loss, (logits.argmax(-1) == labels).sum(), len(labels))}


@pytest.fixture
def focal(monkeypatch):
    """Add the objective to the catalog, as a module that `--import` names does."""
    entry = ObjectiveEntry(
        implementation=f"{__name__}:FocalLM", term="focal", title="focal masked LM"
    )
    monkeypatch.setitem(OBJECTIVES, "focal", entry)


def test_an_objective_of_its_own_is_learned_and_shown(focal, corpus_dir, tmp_path):
    job = PretrainJob(
        corpus_dir, ModelSettings(preset="tiny"),
        PretrainingSettings(max_length=19, objective="focal"),
        TrainingSettings(steps=150, batch_size=31, eval_rows=13, threads=1, precision="fp32"),
    )  # fmt: skip
    result = run_pretraining(job, tmp_path / "out")
    # The inherited evaluation is that of masked LM, so the model can be compared with others.
    assert result["held_out_loss"] == result["held_out_mlm_loss"]
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["architectures"] == ["BertForMaskedLM"]
    journal = read_journal(tmp_path / "out" / "journal.jsonl")
    losses = [entry["focal_loss"] for entry in journal if "focal_loss" in entry]
    assert sum(losses[-10:]) < 0.95 * sum(losses[:10])
    charts = build_charts(journal)
    assert "Loss: focal masked LM" in [chart.title for chart in charts]


def test_an_objective_of_its_own_has_no_pairs(focal):
    assert PretrainingSettings(objective="focal").pair_task == "none"
    with pytest.raises(ConfigError):
        PretrainingSettings(objective="focal", pairs="next_sentence")
    assert title_of_term("focal") == "focal masked LM"


def test_an_objective_that_is_not_in_the_catalog_is_refused():
    with pytest.raises(ConfigError):
        PretrainingSettings(objective="focal")

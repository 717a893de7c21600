"""A family with a layer of its own, from pre-training to a classifier, in one file."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from small_workers import (
    check_same_as_one_process,
    small_config,
    small_model,
    small_objective,
    small_workers,
)
from tiny_models import write_reviews
from torch import Tensor, nn

from bertsmith import TextClassifier, load, load_model
from bertsmith.model.attention_pattern import AttentionPattern
from bertsmith.model.config import BertConfig
from bertsmith.model.families import FAMILIES
from bertsmith.model.families.bert import BERT_HEADS, TASK_HEAD_NAMES, encoder_names
from bertsmith.model.family import Family, architectures, build_layers
from bertsmith.model.layers import TransformerLayer
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.run import run_pretraining
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.training.settings import TrainingSettings


@dataclass(unsafe_hash=True)
class GatedConfig(BertConfig):
    gate_bias: float = 1.0  # an entry of config.json

    model_type: ClassVar[str] = "gated"


class GatedLayer(TransformerLayer):
    """BERT's layer with a gate on attention's output, and a window of 9 tokens on each side."""

    pattern = AttentionPattern(window=9)

    def __init__(self, config: GatedConfig, number: int = 0) -> None:
        super().__init__(config, number)
        self.gate = nn.Linear(config.hidden_size, config.hidden_size)
        self.gate_bias = config.gate_bias

    def combine(self, hidden: Tensor, attended: Tensor) -> Tensor:
        gate = torch.sigmoid(self.gate(hidden) + self.gate_bias)
        return super().combine(hidden, gate * attended)


GATED = Family(
    config=GatedConfig,
    build_layers=lambda config: build_layers(config, GatedLayer),
    heads=BERT_HEADS,
    architectures=architectures("Gated"),
    names={
        **encoder_names("gated"),
        "layers.{i}.gate": ("gated.encoder.layer.{i}.gate",),
        "pooler.dense": ("gated.pooler.dense",),
        "heads.masked_lm.dense": ("cls.dense",),
        "heads.masked_lm.norm": ("cls.norm",),
        "heads.masked_lm": ("cls",),
        **TASK_HEAD_NAMES,
    },
    tied={},
    absent={},
)


def test_a_family_with_a_layer_of_its_own_is_pretrained_and_fine_tuned(
    corpus_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FAMILIES, "gated", GATED)
    out = tmp_path / "pretrained"
    job = PretrainJob(
        corpus_dir, ModelSettings(family="gated", preset="tiny"),
        PretrainingSettings(max_length=19, pairs="none"),
        TrainingSettings(steps=5, batch_size=7, eval_rows=7, threads=1, precision="fp32"),
    )  # fmt: skip
    run_pretraining(job, out)
    model = load_model(out)
    assert isinstance(model.config, GatedConfig)
    assert all(isinstance(layer, GatedLayer) for layer in model.layers)
    train = write_reviews(tmp_path / "reviews.csv", 40)
    classifier = TextClassifier(
        out, out=tmp_path / "classifier", steps=2, threads=1, precision="fp32", verbose=0
    )
    classifier.fit(train, eval=None)
    again = load(tmp_path / "classifier", device="cpu", precision="fp32")
    probabilities = classifier.predict_proba(["good film", "bad film"])
    assert again.probabilities(["good film", "bad film"]).tolist() == probabilities.tolist()


def test_worker_processes_compute_a_layer_of_its_own(
    corpus_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FAMILIES, "gated", GATED)
    config = small_config(GatedConfig)
    alone, together = (
        small_workers(
            small_objective(corpus_dir, pairs="none"), 2,
            model=small_model("masked_lm", config=config),
        )
        for _ in range(2)
    )  # fmt: skip
    check_same_as_one_process(alone, together)

"""A family of models, and a format of checkpoints, is one file and one entry of a table."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from tiny_models import save_tiny, tiny_config, tiny_tokenizer, write_reviews

from bertsmith import BertModel, load, load_model, save_model
from bertsmith.finetuning.run import finetune
from bertsmith.model.config import BertConfig
from bertsmith.model.families import FAMILIES, build_heads
from bertsmith.model.families.bert import BERT_HEADS, TASK_HEAD_NAMES, encoder_names
from bertsmith.model.family import Family, architectures
from bertsmith.model.layers import Embeddings
from bertsmith.model.weight_formats import READERS
from bertsmith.model.weights import read_weights
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.text_classification import Classify


@dataclass(unsafe_hash=True)
class ToyConfig(BertConfig):
    scale: float = 1.0
    model_type: ClassVar[str] = "toy"


class ToyEmbeddings(Embeddings):
    def __init__(self, config):
        super().__init__(config)
        self.scale = config.scale

    def forward(self, batch, words=None):
        return self.scale * super().forward(batch, words)


TOY = Family(
    config=ToyConfig, heads=BERT_HEADS, tied={}, absent={}, build_embeddings=ToyEmbeddings,
    architectures=architectures("Toy"),
    names={
        **encoder_names("toy"), "pooler.dense": ("toy.pooler.dense",),
        "heads.masked_lm.dense": ("cls.dense",), "heads.masked_lm.norm": ("cls.norm",),
        "heads.masked_lm": ("cls",), **TASK_HEAD_NAMES,
    },
)  # fmt: skip


def test_a_family_is_fine_tuned_saved_and_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FAMILIES, "toy", TOY)
    config = ToyConfig(**vars(tiny_config()), scale=0.5)
    start, out = tmp_path / "start", tmp_path / "out"
    save_model(BertModel(config, build_heads(config, ["masked_lm"])), start, tiny_tokenizer())
    data = write_reviews(tmp_path / "reviews.csv", 8)
    finetune(
        Classify, ClassifySettings(model=start, train=data, eval=data, out=out, steps=1, threads=1)
    )
    model = load_model(out)
    ids = torch.arange(5, 12)[None]
    save_model(model, tmp_path / "again")
    again = load_model(tmp_path / "again")
    assert model.config == again.config
    assert model.config.scale == 0.5
    assert model(ids).logits.equal(again(ids).logits)
    bert = BertModel(tiny_config(), model.heads).eval()
    bert.load_state_dict(model.state_dict())
    assert not bert(ids).logits.equal(model(ids).logits)


def read_npz(file: Path) -> dict[str, torch.Tensor]:
    with np.load(file) as arrays:
        return {name: torch.from_numpy(array) for name, array in arrays.items()}


def test_a_model_is_loaded_from_another_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_tiny(tmp_path, "masked_lm")
    ids = torch.arange(5, tiny_tokenizer().vocab_size)[None]
    expected = load_model(tmp_path)(ids).logits
    tensors = {name: tensor.numpy() for name, tensor in read_weights(tmp_path).items()}
    np.savez(tmp_path / "weights.npz", **tensors)
    (tmp_path / "model.safetensors").unlink()
    monkeypatch.setitem(READERS, "weights.npz", read_npz)
    assert load_model(tmp_path)(ids).logits.equal(expected)
    assert load(tmp_path, device="cpu")("a [MASK] film")

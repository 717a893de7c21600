"""DistilBERT (Sanh et al. 2019): BERT with half the layers, no segments and no pooler.

`model/family.py` describes the fields of `Family` in full; a comment at each table says in short
what it maps.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from bertsmith.errors import ConfigError
from bertsmith.model.config import PRESETS, SIZES, BertConfig
from bertsmith.model.families.bert import ABSENT_SIZES, TASK_HEAD_NAMES
from bertsmith.model.family import Family, architectures, build_layers
from bertsmith.model.heads import ClassificationHead, MaskedLMHead, TwoLayerHead
from bertsmith.model.layers import TransformerLayer

SEQUENCE_HEADS = ("classify", "multi_label", "regress", "choose")
"""Heads that read the first token's vector through a dense layer of their own."""


@dataclass(unsafe_hash=True)  # hash by value; fields are set only once
class DistilBertConfig(BertConfig):
    """The config of a DistilBERT, with BERT's field names.

    `DISTILBERT_KEYS` gives the fields' names in config.json, None for fields that are not stored.
    """

    type_vocab_size: int = 0
    seq_classif_dropout: float = 0.2
    qa_dropout: float = 0.1
    sinusoidal_pos_embds: bool = False
    """Whether position embeddings were initialized as sinusoids; their values come from the folder.
    """

    model_type: ClassVar[str] = "distilbert"
    sizes: ClassVar[tuple[str, ...]] = tuple(name for name in SIZES if name != "type_vocab_size")
    has_pooler: ClassVar[bool] = False
    first_token_heads: ClassVar[tuple[str, ...]] = SEQUENCE_HEADS

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.type_vocab_size != 0:
            raise ConfigError(
                f"type_vocab_size is {self.type_vocab_size!r}. DistilBERT has no segments: give 0."
            )

    @classmethod
    def preset_sizes(cls, name: str) -> dict[str, Any]:
        layers = PRESETS[name]["num_hidden_layers"] // 2
        return {**super().preset_sizes(name), "num_hidden_layers": layers}


class DistilBertLayer(TransformerLayer):
    """BERT's layer without dropout on the output of attention, as in transformers."""

    def combine(self, hidden: Tensor, attended: Tensor) -> Tensor:
        """Combine the layer's input `hidden` and the output of attention, both [rows, hidden]."""
        hidden = self.attention_norm(hidden + attended)
        return self.feed_forward_norm(hidden + self.drop(self.feed_forward(hidden)))


DISTILBERT_KEYS: dict[str, str | None] = {
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "hidden_act": "activation",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "type_vocab_size": None,
    "layer_norm_eps": None,
    "classifier_dropout": None,
    "pooling": None,
}
"""Maps a field of the config to its key in config.json; None if the field is not stored."""

DISTILBERT_LAYER = "distilbert.transformer.layer.{i}"
"""Beginning of the stored names of the layer with number `{i}`."""

DISTILBERT = Family(
    config=DistilBertConfig,
    heads={  # name of a head → function that builds it from config and number of outputs
        "masked_lm": lambda config, _: MaskedLMHead(config),
        **dict.fromkeys(
            SEQUENCE_HEADS,
            lambda config, num_labels: TwoLayerHead(
                config, num_labels, torch.relu, dropout=config.seq_classif_dropout, drop_first=False
            ),
        ),
        "tag": ClassificationHead,
        "answer": lambda config, _: ClassificationHead(config, 2, config.qa_dropout),
    },
    names={  # our name of a module → its names in a Hugging Face folder
        "embeddings.word": ("distilbert.embeddings.word_embeddings",),
        "embeddings.position": ("distilbert.embeddings.position_embeddings",),
        "embeddings.norm": ("distilbert.embeddings.LayerNorm",),
        "layers.{i}.attention.qkv": (
            f"{DISTILBERT_LAYER}.attention.q_lin",
            f"{DISTILBERT_LAYER}.attention.k_lin",
            f"{DISTILBERT_LAYER}.attention.v_lin",
        ),
        "layers.{i}.attention.output": (f"{DISTILBERT_LAYER}.attention.out_lin",),
        "layers.{i}.attention_norm": (f"{DISTILBERT_LAYER}.sa_layer_norm",),
        "layers.{i}.feed_forward.up": (f"{DISTILBERT_LAYER}.ffn.lin1",),
        "layers.{i}.feed_forward.down": (f"{DISTILBERT_LAYER}.ffn.lin2",),
        "layers.{i}.feed_forward_norm": (f"{DISTILBERT_LAYER}.output_layer_norm",),
        "heads.masked_lm.dense": ("vocab_transform",),
        "heads.masked_lm.norm": ("vocab_layer_norm",),
        # This module itself has only the decoder's bias: its matrix is the word embedding (`tied`).
        "heads.masked_lm": ("vocab_projector",),
        **{f"heads.{name}.transform": ("pre_classifier",) for name in SEQUENCE_HEADS},
        **TASK_HEAD_NAMES,
    },
    architectures=architectures("DistilBert"),  # heads of a model → its class in transformers
    # stored tensor → the stored tensor that it equals
    tied={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
    # field → value that transformers assumes if config.json omits it
    absent={**ABSENT_SIZES, "num_hidden_layers": 6},
    keys=DISTILBERT_KEYS,
    # Fields that config.json may also have by their own names.
    fields_by_both_names=frozenset({"hidden_size", "num_hidden_layers", "num_attention_heads"}),
    build_layers=lambda config: build_layers(config, DistilBertLayer),
    dropout_keys={  # name of a head → key of its dropout; None: the dropout is not stored
        **dict.fromkeys(SEQUENCE_HEADS, "seq_classif_dropout"),
        "tag": None,
        "answer": "qa_dropout",
    },
)

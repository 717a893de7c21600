"""ELECTRA (Clark et al. 2020): a discriminator that detects replaced tokens.

The encoder is BERT's without a pooler; in small models the embeddings are narrower than the layers.
The generator that replaces tokens is a model of this family with a masked-LM head.
`model/family.py` describes the fields of `Family` in full; a comment at each table says in short
what it maps.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch.nn.functional as F

from bertsmith.model.config import PRESETS, SIZES, BertConfig
from bertsmith.model.families.bert import (
    ABSENT_SIZES,
    ABSOLUTE,
    BERT_HEADS,
    ENCODER_ONLY,
    TASK_HEAD_NAMES,
    TEXT_HEADS,
    TWO_LAYER_NAMES,
    encoder_names,
)
from bertsmith.model.family import Family, architectures
from bertsmith.model.heads import MaskedLMHead, ReplacedTokenHead, TwoLayerHead
from bertsmith.model.layers import Embeddings, FactorizedEmbeddings

SMALL_EMBEDDING = 128
"""Width of the embeddings of the released ELECTRA-small, whose layers are 256 wide; in base and
large the embeddings are as wide as the layers."""


@dataclass(unsafe_hash=True)  # hash by value; fields are set only once
class ElectraConfig(BertConfig):
    """The config of an ELECTRA, generator or discriminator."""

    embedding_size: int = SMALL_EMBEDDING
    """The width of word, position and segment embeddings."""
    summary_last_dropout: float = 0.1
    """Dropout of the multiple-choice head."""

    model_type: ClassVar[str] = "electra"
    sizes: ClassVar[tuple[str, ...]] = (*SIZES, "embedding_size")
    has_pooler: ClassVar[bool] = False
    first_token_heads: ClassVar[tuple[str, ...]] = (*TEXT_HEADS, "choose")

    @classmethod
    def preset_sizes(cls, name: str) -> dict[str, Any]:
        """Return BERT's sizes with the paper's embeddings (appendix A)."""
        hidden_size = PRESETS[name]["hidden_size"]
        size = hidden_size if hidden_size >= PRESETS["base"]["hidden_size"] else SMALL_EMBEDDING
        return {**super().preset_sizes(name), "embedding_size": size}


def _build_embeddings(config: ElectraConfig) -> Embeddings:
    if config.embedding_size == config.hidden_size:
        return Embeddings(config)
    return FactorizedEmbeddings(config)


SUMMARY = {"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"}
"""Entries of config.json for the multiple-choice head, which reads the first token."""

ELECTRA = Family(
    config=ElectraConfig,
    heads={  # name of a head → function that builds it from config and number of outputs
        "masked_lm": lambda config, _: MaskedLMHead(config, "gelu"),
        "replaced_token": lambda config, _: ReplacedTokenHead(config),
        **dict.fromkeys(
            TEXT_HEADS, lambda config, num_labels: TwoLayerHead(config, num_labels, F.gelu)
        ),
        "choose": lambda config, num_labels: TwoLayerHead(
            config, num_labels, F.gelu, dropout=config.summary_last_dropout, drop_first=False
        ),
        **{name: BERT_HEADS[name] for name in ("tag", "answer")},
    },
    names={  # our name of a module → its names in a Hugging Face folder
        **encoder_names("electra"),
        "embeddings.project": ("electra.embeddings_project",),
        "heads.masked_lm.dense": ("generator_predictions.dense",),
        "heads.masked_lm.norm": ("generator_predictions.LayerNorm",),
        # This module itself has only the decoder's bias: its matrix is the word embedding (`tied`).
        "heads.masked_lm": ("generator_lm_head",),
        "heads.replaced_token.transform": ("discriminator_predictions.dense",),
        "heads.replaced_token.dense": ("discriminator_predictions.dense_prediction",),
        **TASK_HEAD_NAMES,
        **TWO_LAYER_NAMES,
        "heads.choose.transform": ("sequence_summary.summary",),
    },
    architectures={  # heads of a model → its class in transformers
        **architectures("Electra"),
        frozenset({"replaced_token"}): "ElectraForPreTraining",
    },
    # stored tensor → the stored tensor that it equals
    tied={"generator_lm_head.weight": "electra.embeddings.word_embeddings.weight"},
    absent={  # field → value that transformers assumes if config.json omits it
        **ABSENT_SIZES,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
    },
    fixed={**ENCODER_ONLY, **SUMMARY},  # key of config.json → the only value that is read
    written={**ABSOLUTE, **SUMMARY},  # key → value that every config.json gets
    build_embeddings=_build_embeddings,
    dropout_keys={"choose": "summary_last_dropout"},  # name of a head → key of its dropout
)

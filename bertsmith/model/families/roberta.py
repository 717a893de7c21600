"""RoBERTa (Liu et al. 2019): BERT pre-trained longer, by masked LM alone.

The encoder is BERT's. Positions begin after the position of padding, there is one segment, and a
classifier reads the vector of <s> through a dense layer of its own, without a pooler.
`model/family.py` describes the fields of `Family` in full; a comment at each table says in short
what it maps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bertsmith.data.batches import Batch
from bertsmith.model.config import BertConfig
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
from bertsmith.model.heads import ClassificationHead, MaskedLMHead, TwoLayerHead
from bertsmith.model.layers import Embeddings


@dataclass(unsafe_hash=True)  # hash by value; fields are set only once
class RobertaConfig(BertConfig):
    """The config of a RoBERTa, with the defaults of transformers.

    `max_position_embeddings` includes `pad_token_id + 1` rows that no real token has: the released
    models have 514 and read 512 tokens.
    """

    pad_token_id: int = 1
    bos_token_id: int | None = 0
    eos_token_id: int | list[int] | None = field(default=2, hash=False)

    model_type: ClassVar[str] = "roberta"
    first_token_heads: ClassVar[tuple[str, ...]] = TEXT_HEADS
    released_values: ClassVar[Mapping[str, Any]] = {"type_vocab_size": 1, "layer_norm_eps": 1e-5}

    @property
    def first_position(self) -> int:
        return self.pad_token_id + 1


class RobertaEmbeddings(Embeddings):
    """BERT's embeddings, with positions counted from `first_position`."""

    def __init__(self, config: RobertaConfig) -> None:
        super().__init__(config)
        self.position = nn.Embedding(
            config.max_position_embeddings, config.embedding_size, padding_idx=config.pad_token_id
        )

    def look_up_positions(self, position: nn.Embedding, batch: Batch) -> Tensor:
        return position(batch.position_ids + self.first_position)

    @property
    def first_position(self) -> int:
        """The position of a text's first token, after the position of padding."""
        assert self.position is not None
        return (self.position.padding_idx or 0) + 1

    def number_columns(self, input_ids: Tensor) -> Tensor:
        """Number the real tokens of each row of `input_ids`, [batch, length], from 0.

        The result is int64; padding tokens get -1. As in fairseq and transformers the token ids
        decide, not the attention mask.
        """
        is_real = input_ids.ne(self.word.padding_idx or 0).long()
        numbers_from_1 = torch.cumsum(is_real, 1) * is_real  # 0 at padding
        return numbers_from_1 - 1


ROBERTA = Family(
    config=RobertaConfig,
    heads={  # name of a head → function that builds it from config and number of outputs
        "masked_lm": lambda config, _: MaskedLMHead(config, "gelu"),
        **{name: BERT_HEADS[name] for name in ("tag", "answer")},
        # In transformers this head does not read `classifier_dropout`.
        "choose": lambda config, num_labels: ClassificationHead(
            config, num_labels, config.hidden_dropout_prob
        ),
        **dict.fromkeys(
            TEXT_HEADS, lambda config, num_labels: TwoLayerHead(config, num_labels, torch.tanh)
        ),
    },
    names={  # our name of a module → its names in a Hugging Face folder
        **encoder_names("roberta"),
        "pooler.dense": ("roberta.pooler.dense",),
        "heads.masked_lm.dense": ("lm_head.dense",),
        "heads.masked_lm.norm": ("lm_head.layer_norm",),
        # This module itself has only the decoder's bias: its matrix is the word embedding (`tied`).
        "heads.masked_lm": ("lm_head",),
        **TASK_HEAD_NAMES,
        **TWO_LAYER_NAMES,
    },
    architectures=architectures("Roberta"),  # heads of a model → its class in transformers
    tied={  # stored tensor → the stored tensor that it equals
        "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
    # field → value that transformers assumes if config.json omits it
    absent={**ABSENT_SIZES, "vocab_size": 50265},
    fixed=ENCODER_ONLY,  # key of config.json → the only value that is read
    written=ABSOLUTE,  # key → value that every config.json gets
    build_embeddings=RobertaEmbeddings,
    dropout_keys={"choose": None},  # name of a head → key of its dropout; None: it is not stored
)

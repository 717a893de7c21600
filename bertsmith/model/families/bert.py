"""BERT (Devlin et al. 2019), and the parts of its `Family` that other families share.

`model/family.py` describes the fields of `Family`.
"""

from collections.abc import Mapping

from bertsmith.model.config import BertConfig
from bertsmith.model.family import Family, HeadBuilder, architectures
from bertsmith.model.head_names import LABEL_HEADS, NUMBER_HEADS, PAIR_HEADS
from bertsmith.model.heads import ClassificationHead, MaskedLMHead, TwoLogitHead

BERT_HEADS: Mapping[str, HeadBuilder] = {
    "masked_lm": lambda config, _: MaskedLMHead(config),
    **dict.fromkeys(PAIR_HEADS, lambda config, _: TwoLogitHead(config)),
    **dict.fromkeys((*LABEL_HEADS, *NUMBER_HEADS), ClassificationHead),
    "answer": lambda config, _: TwoLogitHead(config),
}

TASK_HEAD_NAMES = {
    **{f"heads.{name}.dense": ("classifier",) for name in (*LABEL_HEADS, *NUMBER_HEADS)},
    "heads.answer.dense": ("qa_outputs",),
}
"""Hugging Face's names of task heads that are a single layer."""


TEXT_HEADS = ("classify", "multi_label", "regress")
"""Heads that read a text's vector; in some families with a dense layer of their own."""
TWO_LAYER_NAMES = {
    **{f"heads.{name}.transform": ("classifier.dense",) for name in TEXT_HEADS},
    **{f"heads.{name}.dense": ("classifier.out_proj",) for name in TEXT_HEADS},
}
"""Hugging Face's names of task heads with a dense layer of their own."""


def encoder_names(prefix: str) -> dict[str, tuple[str, ...]]:
    """Map our modules to Hugging Face's names in a family whose encoder has those of BERT.

    The names begin with `prefix`, such as "electra".
    """
    layer = f"{prefix}.encoder.layer.{{i}}"
    return {
        "embeddings.word": (f"{prefix}.embeddings.word_embeddings",),
        "embeddings.position": (f"{prefix}.embeddings.position_embeddings",),
        "embeddings.token_type": (f"{prefix}.embeddings.token_type_embeddings",),
        "embeddings.norm": (f"{prefix}.embeddings.LayerNorm",),
        "layers.{i}.attention.qkv": (
            f"{layer}.attention.self.query",
            f"{layer}.attention.self.key",
            f"{layer}.attention.self.value",
        ),
        "layers.{i}.attention.output": (f"{layer}.attention.output.dense",),
        "layers.{i}.attention_norm": (f"{layer}.attention.output.LayerNorm",),
        "layers.{i}.feed_forward.up": (f"{layer}.intermediate.dense",),
        "layers.{i}.feed_forward.down": (f"{layer}.output.dense",),
        "layers.{i}.feed_forward_norm": (f"{layer}.output.LayerNorm",),
    }


ABSENT_SIZES = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
}
"""Sizes that transformers assumes where config.json omits them."""

ABSOLUTE = {"position_embedding_type": "absolute"}
ENCODER_ONLY = {**ABSOLUTE, "is_decoder": False, "add_cross_attention": False}
"""Values of config.json that an encoder with absolute positions must have, if they are there."""

BERT = Family(
    config=BertConfig,
    heads=BERT_HEADS,
    names={
        **encoder_names("bert"),
        "pooler.dense": ("bert.pooler.dense",),
        "heads.masked_lm.dense": ("cls.predictions.transform.dense",),
        "heads.masked_lm.norm": ("cls.predictions.transform.LayerNorm",),
        # This module itself has only the decoder's bias: its matrix is the word embedding (`tied`).
        "heads.masked_lm": ("cls.predictions",),
        **{f"heads.{name}.dense": ("cls.seq_relationship",) for name in PAIR_HEADS},
        **TASK_HEAD_NAMES,
    },
    architectures={
        **architectures("Bert"),
        **{frozenset({name}): "BertForNextSentencePrediction" for name in PAIR_HEADS},
        **{frozenset({"masked_lm", name}): "BertForPreTraining" for name in PAIR_HEADS},
    },
    tied={
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    absent=ABSENT_SIZES,
    fixed=ENCODER_ONLY,
    written=ABSOLUTE,
)

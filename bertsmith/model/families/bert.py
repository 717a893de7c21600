"""BERT (Devlin et al. 2019) as a `Family`, and the parts of it that other families share.

A `Family` says how models are built, loaded and saved. `model/family.py` describes the fields of
`Family` in full; a comment at each table says in short what it maps.
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
"""Maps the name of a head to the function that builds it from config and number of outputs."""

TASK_HEAD_NAMES = {
    **{f"heads.{name}.dense": ("classifier",) for name in (*LABEL_HEADS, *NUMBER_HEADS)},
    "heads.answer.dense": ("qa_outputs",),
}
"""For task heads that are a single layer: our name of the layer, with Hugging Face's."""


TEXT_HEADS = ("classify", "multi_label", "regress")
"""Heads that read one vector for the whole text. In some families they have two layers:
`transform`, a dense layer in place of the pooler, and `dense`, the output layer."""
TWO_LAYER_NAMES = {
    **{f"heads.{name}.transform": ("classifier.dense",) for name in TEXT_HEADS},
    **{f"heads.{name}.dense": ("classifier.out_proj",) for name in TEXT_HEADS},
}
"""For `TEXT_HEADS` that have two layers: our name of each layer, with Hugging Face's."""


def encoder_names(prefix: str) -> dict[str, tuple[str, ...]]:
    """Map our modules to Hugging Face's names, in a family whose encoder is built like BERT's.

    Hugging Face's names begin with `prefix`, such as "electra"; the rest is the same as in BERT.
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
"""Maps fields of the config to the sizes that transformers assumes where config.json omits them."""

ABSOLUTE = {"position_embedding_type": "absolute"}
"""Entry of config.json for positions that are added to the embeddings, as bertsmith's are."""
ENCODER_ONLY = {**ABSOLUTE, "is_decoder": False, "add_cross_attention": False}
"""Values that config.json must have, if it has the keys, for an encoder with absolute positions."""

BERT = Family(
    config=BertConfig,
    heads=BERT_HEADS,
    names={  # our name of a module → its names in a Hugging Face folder
        **encoder_names("bert"),
        "pooler.dense": ("bert.pooler.dense",),
        "heads.masked_lm.dense": ("cls.predictions.transform.dense",),
        "heads.masked_lm.norm": ("cls.predictions.transform.LayerNorm",),
        # This module itself has only the decoder's bias: its matrix is the word embedding (`tied`).
        "heads.masked_lm": ("cls.predictions",),
        **{f"heads.{name}.dense": ("cls.seq_relationship",) for name in PAIR_HEADS},
        **TASK_HEAD_NAMES,
    },
    architectures={  # heads of a model → its class in transformers
        **architectures("Bert"),
        **{frozenset({name}): "BertForNextSentencePrediction" for name in PAIR_HEADS},
        **{frozenset({"masked_lm", name}): "BertForPreTraining" for name in PAIR_HEADS},
    },
    tied={  # stored tensor → the stored tensor that it equals
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    absent=ABSENT_SIZES,  # field → value that transformers assumes if config.json omits it
    fixed=ENCODER_ONLY,  # key of config.json → the only value that is read
    written=ABSOLUTE,  # key → value that every config.json gets
)

"""ALBERT (Lan et al. 2020): BERT with factorized embeddings and shared layers.

Layers share all weights, only attention, only the feed-forward layer, or nothing. transformers
knows only groups of layers that share everything. So a part that layers share is saved as an equal
copy for each layer, and shared again when the model is loaded.
`model/family.py` describes the fields of `Family` in full; a comment at each table says in short
what it maps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

from bertsmith.errors import ConfigError
from bertsmith.model.config import PRESETS, SIZES, BertConfig
from bertsmith.model.families.bert import ABSOLUTE, BERT_HEADS, ENCODER_ONLY, TASK_HEAD_NAMES
from bertsmith.model.family import Family, architectures, build_layers
from bertsmith.model.head_names import LABEL_HEADS, NUMBER_HEADS
from bertsmith.model.heads import ClassificationHead
from bertsmith.model.layers import FactorizedEmbeddings, TransformerLayer
from bertsmith.system.bounds import check_choice

Shared = Literal["all", "attention", "feed_forward", "none"]
"""The parts that layers share (`AlbertConfig.shared`)."""

SHARED_PARTS = {
    "attention": ("attention", "attention_norm"),
    "feed_forward": ("feed_forward", "feed_forward_norm"),
}
"""The parts of a layer that can be shared, each with its modules."""


@dataclass(unsafe_hash=True)  # hash by value; fields are set only once
class AlbertConfig(BertConfig):
    """The config of an ALBERT.

    All fields but `pooling` and `shared` have Hugging Face's names.
    """

    hidden_act: str = "gelu_new"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    embedding_size: int = 128
    """The width of word, position and segment embeddings."""
    num_hidden_groups: int = 1
    """Groups of neighbouring layers; the layers of a group share all weights."""
    inner_group_num: int = 1
    """Layers, each with its own weights, that one step of `num_hidden_layers` applies in turn."""
    classifier_dropout_prob: float = 0.1
    bos_token_id: int | None = 2
    eos_token_id: int | list[int] | None = field(default=3, hash=False)
    shared: Shared = "all"
    """Weights that layers share. With "all", the layers of each group share all weights. With
    "attention" or "feed_forward", all layers of the model share this part; with "none", they share
    nothing. Without "all", each layer is a group of its own."""

    model_type: ClassVar[str] = "albert"
    sizes: ClassVar[tuple[str, ...]] = (
        *SIZES, "embedding_size", "num_hidden_groups", "inner_group_num",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("shared", self.shared, ("all", "attention", "feed_forward", "none"))
        groups, layers = self.num_hidden_groups, self.num_hidden_layers
        if groups > layers or (self.shared != "all" and groups != layers):
            allowed = f"1 to {layers}" if self.shared == "all" else f"{layers}"
            raise ConfigError(
                f"num_hidden_groups is {groups} with {layers} layers and shared {self.shared!r}. "
                f"It must be {allowed}."
            )

    @classmethod
    def from_preset(cls, name: str, vocab_size: int, **changes: Any) -> Self:
        """Build the config of one of BERT's sizes, with any field replaced.

        With a `shared` other than "all", each layer becomes a group.
        """
        if changes.get("shared", "all") != "all" and name in PRESETS:
            changes = {"num_hidden_groups": PRESETS[name]["num_hidden_layers"], **changes}
        return super().from_preset(name, vocab_size, **changes)

    @classmethod
    def preset_sizes(cls, name: str) -> dict[str, Any]:
        """Return BERT's sizes, and the paper's `embedding_size` of 128, or less in small models."""
        size = min(128, PRESETS[name]["hidden_size"] // 2)
        return {**super().preset_sizes(name), "embedding_size": size}

    @property
    def num_layers(self) -> int:
        return self.num_hidden_layers * self.inner_group_num

    @property
    def shared_parts(self) -> Mapping[str, int]:
        """The parts that layers share, such as "layers.0.attention", each with its last layer."""
        last_layers: dict[str, int] = {}
        for part in SHARED_PARTS:
            for number, first in enumerate(self.owners(part)):
                if number != first:
                    # Later layers overwrite earlier ones, so the last that shares the part remains.
                    last_layers[f"layers.{first}.{part}"] = number
        return last_layers

    def with_layers(self, keep: Sequence[int], **changes: Any) -> Self:
        """Return the config with only these layers, and other fields replaced.

        Raises:
            ConfigError: the model has several groups of layers that share weights.
        """
        groups = self.num_hidden_groups
        if self.inner_group_num > 1 or 1 < groups < self.num_hidden_layers:
            raise ConfigError(
                f"layers: this model's {self.num_hidden_layers} layers use num_hidden_groups "
                f"{groups} and inner_group_num {self.inner_group_num}, so single layers cannot be "
                "taken out. Choose a model with inner_group_num 1 whose layers share one group, or "
                "have a group each."
            )
        num_groups = 1 if groups == 1 else len(keep)
        return super().with_layers(keep, num_hidden_groups=num_groups, **changes)

    def owners(self, part: str) -> list[int]:
        """Return for each layer the number of the first layer with the same weights in `part`.

        `part` is a key of `SHARED_PARTS`. Layers are numbered from 0. If no lower layer shares a
        layer's weights, the first layer is that layer itself.
        """
        if self.shared == "all":
            stored = [self.stored_layer(number) for number in range(self.num_layers)]
            return [stored.index(name) for name in stored]
        if self.shared == part:
            # All steps share the part; within a step each of its inner layers has its own.
            return [number % self.inner_group_num for number in range(self.num_layers)]
        return list(range(self.num_layers))

    def stored_layer(self, number: int) -> str:
        """Return Hugging Face's name of a layer: its group, and its number within the group."""
        layer, inner = divmod(number, self.inner_group_num)
        # transformers assigns layers to groups like this, even if the number of groups does not
        # divide that of layers.
        group = int(layer / (self.num_hidden_layers / self.num_hidden_groups))
        return f"{group}.albert_layers.{inner}"


def _build_layers(config: AlbertConfig) -> list[TransformerLayer]:
    """Build the layers from the bottom; parts that layers share are the same modules in each."""
    layers = build_layers(config)
    for part, modules in SHARED_PARTS.items():
        for layer, owner in zip(layers, config.owners(part), strict=True):
            for name in modules:
                setattr(layer, name, getattr(layers[owner], name))
    return layers


def _classifier(config: AlbertConfig, num_labels: int) -> ClassificationHead:
    return ClassificationHead(config, num_labels, config.classifier_dropout_prob)


ALBERT_LAYER = "albert.encoder.albert_layer_groups.{i}"
"""Beginning of the stored names of a layer; `AlbertConfig.stored_layer` stands for `{i}`."""

ALBERT = Family(
    config=AlbertConfig,
    heads={  # name of a head → function that builds it from config and number of outputs
        "masked_lm": BERT_HEADS["masked_lm"],
        "sentence_order": lambda config, _: _classifier(config, 2),
        **dict.fromkeys((*LABEL_HEADS, *NUMBER_HEADS), _classifier),
        "answer": BERT_HEADS["answer"],
    },
    names={  # our name of a module → its names in a Hugging Face folder
        "embeddings.word": ("albert.embeddings.word_embeddings",),
        "embeddings.position": ("albert.embeddings.position_embeddings",),
        "embeddings.token_type": ("albert.embeddings.token_type_embeddings",),
        "embeddings.norm": ("albert.embeddings.LayerNorm",),
        "embeddings.project": ("albert.encoder.embedding_hidden_mapping_in",),
        "layers.{i}.attention.qkv": (
            f"{ALBERT_LAYER}.attention.query",
            f"{ALBERT_LAYER}.attention.key",
            f"{ALBERT_LAYER}.attention.value",
        ),
        "layers.{i}.attention.output": (f"{ALBERT_LAYER}.attention.dense",),
        "layers.{i}.attention_norm": (f"{ALBERT_LAYER}.attention.LayerNorm",),
        "layers.{i}.feed_forward.up": (f"{ALBERT_LAYER}.ffn",),
        "layers.{i}.feed_forward.down": (f"{ALBERT_LAYER}.ffn_output",),
        "layers.{i}.feed_forward_norm": (f"{ALBERT_LAYER}.full_layer_layer_norm",),
        "pooler.dense": ("albert.pooler",),
        "heads.masked_lm.dense": ("predictions.dense",),
        "heads.masked_lm.norm": ("predictions.LayerNorm",),
        # This module itself has only the decoder's bias: its matrix is the word embedding (`tied`).
        "heads.masked_lm": ("predictions",),
        "heads.sentence_order.dense": ("sop_classifier.classifier",),
        **TASK_HEAD_NAMES,
    },
    architectures={  # heads of a model → its class in transformers
        **architectures("Albert"),
        frozenset({"masked_lm", "sentence_order"}): "AlbertForPreTraining",
    },
    tied={  # stored tensor → the stored tensor that it equals
        "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
        "predictions.decoder.bias": "predictions.bias",
    },
    absent={  # field → value that transformers assumes if config.json omits it
        "vocab_size": 30000,
        "hidden_size": 4096,
        "num_hidden_layers": 12,
        "num_attention_heads": 64,
        "intermediate_size": 16384,
    },
    fixed=ENCODER_ONLY,  # key of config.json → the only value that is read
    written=ABSOLUTE,  # key → value that every config.json gets
    keys={"classifier_dropout": None},  # field → its key; None: the field is not stored
    build_embeddings=FactorizedEmbeddings,
    build_layers=_build_layers,
    # name of a head → key of its dropout
    dropout_keys=dict.fromkeys((*LABEL_HEADS, *NUMBER_HEADS), "classifier_dropout_prob"),
)

"""Static vectors: one vector for each token, which does not depend on the context; no layers.

The vector of a text is the mean over its tokens. model2vec and sentence-transformers read the same
folders. Special tokens have the vector 0, since these two libraries leave special tokens out.
`model/family.py` describes the fields of `Family` in full; a comment at each table says in short
what it maps.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from bertsmith.data.batches import Batch
from bertsmith.errors import ConfigError
from bertsmith.model.config import BertConfig
from bertsmith.model.families.bert import TASK_HEAD_NAMES
from bertsmith.model.family import Family
from bertsmith.model.head_names import LABEL_HEADS, NUMBER_HEADS, TASK_HEADS
from bertsmith.model.heads import ClassificationHead, TwoLogitHead
from bertsmith.model.layers import Embeddings, Pooling


@dataclass(unsafe_hash=True)  # hash by value; fields are set only once
class StaticConfig(BertConfig):
    """The config of static vectors; `STATIC_KEYS` gives the fields' names in config.json."""

    num_hidden_layers: int = 0
    num_attention_heads: int = 1
    intermediate_size: int = 0
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    type_vocab_size: int = 0
    pooling: Any = "mean"
    normalize: bool = False
    """Whether model2vec scales the vectors of texts to length 1."""

    model_type: ClassVar[str] = "model2vec"
    sizes: ClassVar[tuple[str, ...]] = ("vocab_size", "hidden_size", "max_position_embeddings")
    has_pooler: ClassVar[bool] = False
    has_position_embedding: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.vocab_size == 0:
            raise ConfigError(
                "vocab_size is missing. bertsmith reads the static vectors that it wrote itself "
                "('bertsmith vectors'), and of other libraries none yet."
            )
        super().__post_init__()
        if (self.num_hidden_layers, self.pooling, self.normalize) != (0, "mean", False):
            raise ConfigError(
                "static vectors have no layers, and the vector of a text is the mean over its "
                "tokens, not scaled. Take config.json as bertsmith wrote it."
            )


class StaticEmbeddings(Embeddings):
    """Word embeddings alone, without position, segment and LayerNorm.

    A token whose vector is 0, such as a special token, keeps that vector in training: it gets no
    gradient.
    """

    def __init__(self, config: StaticConfig) -> None:
        super().__init__(config)
        self.norm = nn.Identity()  # type: ignore[assignment]

    def forward(self, batch: Batch, words: Tensor | None = None) -> Tensor:
        """Return [tokens, hidden]; `words`, of this shape, replace the vectors of the ids."""
        vectors = super().forward(batch, words)
        return vectors * (vectors.detach() != 0).any(-1, keepdim=True)


STATIC_KEYS: dict[str, str | None] = {
    "hidden_size": "hidden_dim",
    "max_position_embeddings": "max_length",
    **dict.fromkeys(
        (
            "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
            "hidden_dropout_prob", "attention_probs_dropout_prob", "type_vocab_size",
            "layer_norm_eps", "classifier_dropout", "pooling",
        )
    ),
}  # fmt: skip
"""Maps a field of the config to its key in config.json; None if the field is not stored."""

STATIC_VECTORS = Family(
    config=StaticConfig,
    heads={  # name of a head → function that builds it from config and number of outputs
        **dict.fromkeys((*LABEL_HEADS, *NUMBER_HEADS), ClassificationHead),
        "answer": lambda config, _: TwoLogitHead(config),
    },
    # our name of a module → its names in a Hugging Face folder
    names={"embeddings.word": ("embeddings",), **TASK_HEAD_NAMES},
    architectures={  # heads of a model → its class; transformers has none, so these are our names
        frozenset(): "StaticModel",
        **{frozenset({name}): f"StaticModelFor_{name}" for name in TASK_HEADS},
    },
    tied={},
    absent={"vocab_size": 0, "hidden_size": 0},  # field → value if config.json omits it: an error
    keys=STATIC_KEYS,
    whole_names=frozenset({"embeddings"}),  # names of tensors that no `.weight` follows
    build_embeddings=StaticEmbeddings,
    build_pooler=Pooling,
)

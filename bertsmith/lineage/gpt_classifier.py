"""GPT-2 (Radford et al. 2019) as a classifier, whose head reads the last token.

The language model, which continues texts, is in gpt.py. Both have the same network, and the same
names in a folder. Only the last token has seen the whole text, so it takes the place of [CLS]
(Radford et al. 2018, section 3.2). `model/family.py` describes the fields of `Family` in full; a
comment at each table says in short what it maps.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from bertsmith.errors import CheckpointError
from bertsmith.lineage.gpt_tokenizer import load_text_tokenizer
from bertsmith.model.attention import RecordWeights, SelfAttention
from bertsmith.model.attention_pattern import CAUSAL
from bertsmith.model.config import SIZES, BertConfig
from bertsmith.model.families.bert import TASK_HEAD_NAMES
from bertsmith.model.family import Family, architectures, build_layers, initialize
from bertsmith.model.head_names import CLASS_HEADS
from bertsmith.model.heads import ClassificationHead
from bertsmith.model.layers import Embeddings, FeedForward, Pooling, TransformerLayer
from bertsmith.model.packed_row import PickedTokens
from bertsmith.model.row_layout import RowLayout
from bertsmith.system.small_files import SmallFiles
from bertsmith.tokenization.tokenizer import Tokenizer


@dataclass(unsafe_hash=True)  # hash by value; fields are set only once
class GptClassifierConfig(BertConfig):
    """The config of a GPT-2, with BERT's field names; `KEYS` has the names in config.json.

    If the padding token is the end token, `pad_token_id` becomes None. transformers takes the last
    token that is not padding for the last token of a text, and would skip the text's own end token.
    """

    intermediate_size: int = 0
    """Width of the feed-forward layers; 0 for four times the hidden size."""
    hidden_act: str = "gelu_new"
    embedding_dropout: float = 0.1
    max_position_embeddings: int = 1024
    type_vocab_size: int = 0
    layer_norm_eps: float = 1e-5
    pad_token_id: Any = None
    pooling: Any = "last_token"
    bos_token_id: int | None = None
    eos_token_id: int | None = None

    model_type: ClassVar[str] = "gpt2"
    # The fields that must be 1 or more.
    sizes: ClassVar[tuple[str, ...]] = tuple(name for name in SIZES if name != "type_vocab_size")
    has_pooler: ClassVar[bool] = False
    poolings: ClassVar[tuple[str, ...]] = ("last_token",)

    def __post_init__(self) -> None:
        # A field of a config can be set only once (`BertConfig.__setattr__`), hence `__dict__`.
        if self.intermediate_size == 0 and type(self.hidden_size) is int:
            self.__dict__["intermediate_size"] = 4 * self.hidden_size
        if self.pad_token_id == self.eos_token_id:
            self.__dict__["pad_token_id"] = None
        super().__post_init__()

    def with_dropout(self, probability: float, attention: float) -> Self:
        """Return the config with these probabilities; `attention` is that of attention weights."""
        config = super().with_dropout(probability, attention)
        return replace(config, embedding_dropout=probability)


class GptClassifierLayer(TransformerLayer):
    """Causal self-attention, then feed-forward, with pre-layer normalization.

    Each of the two reads normalized vectors, and its output is added to the vectors before
    normalization.
    """

    pattern = CAUSAL  # of the base class: which keys each query sees

    def attend(
        self,
        hidden: Tensor,
        layout: RowLayout,
        record_weights: RecordWeights | None,
        picked: PickedTokens | None,
    ) -> Tensor:
        """Return self-attention's outputs; with `picked`, only those of these tokens."""
        return super().attend(self.attention_norm(hidden), layout, record_weights, picked)

    def combine(self, hidden: Tensor, attended: Tensor) -> Tensor:
        hidden = hidden + self.drop(attended)
        return hidden + self.drop(self.feed_forward(self.feed_forward_norm(hidden)))


class GptHead(ClassificationHead):
    """A linear layer without bias and dropout, as in transformers, which calls it `score`."""

    def __init__(self, config: GptClassifierConfig, num_labels: int) -> None:
        super().__init__(config, num_labels)
        self.dense = nn.Linear(config.hidden_size, num_labels, bias=False)

    def forward(self, vectors: Tensor) -> Tensor:
        return self.dense(vectors)


def _build_embeddings(config: GptClassifierConfig) -> Embeddings:
    embeddings = Embeddings(config)
    # GPT-2 normalizes in each layer and after the last one, but not here.
    embeddings.norm = nn.Identity()  # type: ignore[assignment]
    embeddings.dropout_prob = config.embedding_dropout
    return embeddings


def _read_tokenizer(files: SmallFiles, is_trained: bool) -> Tokenizer:
    """Read the tokenizer; GPT-2's own is allowed only if the folder has no trained classifier.

    Raises:
        CheckpointError: the tokenizer is missing or damaged; or it is GPT-2's own, and the
            classifier was trained by another program, on rows without tokens around the text.
    """
    # Only GPT-2's own tokenizer puts no start token before a text (`has_start` is false).
    tokenizer, has_start = load_text_tokenizer(files.directory)
    if is_trained and not has_start:
        raise CheckpointError(
            f"{files.directory}: a classifier with GPT-2's own tokenizer, which puts no token after"
            " a text, so that it reads the class from another token than bertsmith would. Use it "
            "in transformers, or teach its language model classes with 'bertsmith finetune "
            "classify'."
        )
    return tokenizer


def _initialize(module: nn.Module, config: GptClassifierConfig) -> None:
    """Draw weights.

    Matrices whose output is added to the residual stream get a smaller standard deviation
    (Radford et al. 2019, section 2.3).
    """
    # The general function sets a linear layer's bias to zero; the layer of `GptHead` has none.
    if not (isinstance(module, nn.Linear) and module.bias is None):
        initialize(module, config)
    narrow_std = config.initializer_range / math.sqrt(2 * config.num_hidden_layers)
    if isinstance(module, SelfAttention):
        nn.init.normal_(module.output.weight, std=narrow_std)
    if isinstance(module, FeedForward):
        nn.init.normal_(module.down.weight, std=narrow_std)
    if isinstance(module, GptHead):
        nn.init.normal_(module.dense.weight, std=config.initializer_range)


KEYS: dict[str, str | None] = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "n_inner",
    "hidden_act": "activation_function",
    "hidden_dropout_prob": "resid_pdrop",
    "attention_probs_dropout_prob": "attn_pdrop",
    "embedding_dropout": "embd_pdrop",
    "max_position_embeddings": "n_positions",
    "type_vocab_size": None,
    "layer_norm_eps": "layer_norm_epsilon",
    "classifier_dropout": None,
    "pooling": None,
}
"""Maps a field of the config to its key in config.json; None if the field is not stored."""

LAYER = "transformer.h.{i}"
"""Beginning of the stored names of the layer with number `{i}`."""

FAMILY = Family(
    config=GptClassifierConfig,
    heads=dict.fromkeys(CLASS_HEADS, GptHead),  # name of a head → the class that builds it
    names={  # our name of a module → its names in a Hugging Face folder
        "embeddings.word": ("transformer.wte",),
        "embeddings.position": ("transformer.wpe",),
        "layers.{i}.attention_norm": (f"{LAYER}.ln_1",),
        "layers.{i}.attention.qkv": (f"{LAYER}.attn.c_attn",),
        "layers.{i}.attention.output": (f"{LAYER}.attn.c_proj",),
        "layers.{i}.feed_forward_norm": (f"{LAYER}.ln_2",),
        "layers.{i}.feed_forward.up": (f"{LAYER}.mlp.c_fc",),
        "layers.{i}.feed_forward.down": (f"{LAYER}.mlp.c_proj",),
        "final_norm": ("transformer.ln_f",),
        **TASK_HEAD_NAMES,
        # We have no head "regress". It is named here so that the message about a regression says
        # that, and not that weights are missing.
        **{f"heads.{name}.dense": ("score",) for name in (*CLASS_HEADS, "regress")},
    },
    architectures=architectures("GPT2"),  # heads of a model → its class in transformers
    tied={"lm_head.weight": "transformer.wte.weight"},  # stored tensor → the one that it equals
    absent={  # field → value that transformers assumes if config.json omits it
        "vocab_size": 50257,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
    },
    fixed={  # key of config.json → the only value that is read
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
    },
    keys=KEYS,
    # Fields that config.json may also have by their own names.
    fields_by_both_names=frozenset(
        {"hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings"}
    ),
    # Endings of the names of matrices that are stored as [inputs, outputs].
    transposed_names=("c_attn.weight", "c_proj.weight", "c_fc.weight"),
    base_model_prefix="transformer",
    build_embeddings=_build_embeddings,
    build_layers=lambda config: build_layers(config, GptClassifierLayer),
    build_final_norm=lambda config: nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps),
    build_pooler=Pooling,
    initialize=_initialize,
    read_tokenizer=_read_tokenizer,
)

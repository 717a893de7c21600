"""ModernBERT (Warner et al. 2024): a BERT with rotary positions, gates and few biases.

Each layer normalizes its input, not its output. In every third layer a token sees all tokens, in
the others only those near it. There are no segments; only decoder and classifier have biases.
`model/family.py` describes the fields of `Family` in full; a comment at each table says in short
what it maps.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeVar

from torch import Tensor, nn

from bertsmith.errors import ConfigError
from bertsmith.model.activations import ACTIVATIONS
from bertsmith.model.attention import RecordWeights, SelfAttention
from bertsmith.model.attention_pattern import FULL, AttentionPattern
from bertsmith.model.config import SIZES, BertConfig
from bertsmith.model.dropout import dropout
from bertsmith.model.family import Family, architectures, build_layers
from bertsmith.model.head_names import TASK_HEADS
from bertsmith.model.heads import ClassificationHead, MaskedLMHead
from bertsmith.model.layers import Embeddings, Pooling, TransformerLayer
from bertsmith.model.packed_row import PickedTokens
from bertsmith.model.row_layout import RowLayout
from bertsmith.system.bounds import check_choice

ModuleT = TypeVar("ModuleT", bound=nn.Module)

PUBLISHED = {
    "tiny": {"num_hidden_layers": 4, "hidden_size": 128},
    "mini": {"num_hidden_layers": 7, "hidden_size": 256},
    "small": {"num_hidden_layers": 10, "hidden_size": 384},
    "medium": {"num_hidden_layers": 19, "hidden_size": 512},
    "base": {"num_hidden_layers": 22, "hidden_size": 768},
    "large": {"num_hidden_layers": 28, "hidden_size": 1024, "intermediate_size": 2624},
}
"""Sizes mini to large are those of Ettin's encoders (Weller et al. 2025), with 17 to 400 million
parameters; base and large are also ModernBERT's. tiny is our own."""

LAYER_TYPES = ("full_attention", "sliding_attention")
"""In layers of the first type a token sees all tokens, in *sliding layers* only those near it."""


@dataclass(unsafe_hash=True)  # hash by value; fields are set only once
class ModernBertConfig(BertConfig):
    """The config of a ModernBERT, with BERT's field names.

    `MODERNBERT_KEYS` gives the names in config.json where they differ. `hidden_dropout_prob`
    applies inside feed-forward layers, `attention_probs_dropout_prob` to attention weights and to
    the output of attention.
    """

    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    type_vocab_size: int = 0
    layer_norm_eps: float = 1e-5
    initializer_cutoff_factor: float = 2.0
    """Number of standard deviations at which the initial normal distribution is cut off."""
    embedding_dropout: float = 0.0
    classifier_dropout: float = 0.0
    classifier_activation: str = "gelu"
    """Activation inside the heads."""
    local_attention: int = 128
    """The window of a sliding layer: a token sees half as many on each side."""
    global_attn_every_n_layers: int | None = 3
    """Period of the layers with full attention, from layer 0 on; None if `layer_types` are not
    periodic. Older versions of transformers read this field instead of `layer_types`."""
    layer_types: Sequence[str] = ()
    """One of `LAYER_TYPES` for each layer; if empty, `global_attn_every_n_layers` decides."""
    global_rope_theta: float = 160_000.0
    """Base of the rotary wavelengths in layers with full attention."""
    local_rope_theta: float = 10_000.0
    """Base of the rotary wavelengths in sliding layers."""
    rope_parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Both bases as transformers 5 writes them: `{layer type: {"rope_theta": base, …}}`. If they
    are there, they replace `global_rope_theta` and `local_rope_theta`."""
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = field(default=None, hash=False)
    cls_token_id: int | None = None
    sep_token_id: int | None = None

    model_type: ClassVar[str] = "modernbert"
    sizes: ClassVar[tuple[str, ...]] = (
        *(name for name in SIZES if name != "type_vocab_size"), "local_attention",
    )  # fmt: skip
    has_pooler: ClassVar[bool] = False
    has_position_embedding: ClassVar[bool] = False
    kept_feed_forward_vectors: ClassVar[int] = 4  # with gates there are two more

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_size % 2:
            raise ConfigError(
                f"hidden_size is {self.hidden_size} with {self.num_attention_heads} attention "
                "heads. Rotary positions turn pairs of numbers: choose heads of an even width."
            )
        check_choice("classifier_activation", self.classifier_activation, ACTIVATIONS)
        cutoff = self.initializer_cutoff_factor
        if type(cutoff) not in (int, float) or not cutoff > 0:
            raise ConfigError(f"initializer_cutoff_factor is {cutoff!r}. It must be above 0.")
        self._set_layer_types()
        self._set_rope()

    def _set_layer_types(self) -> None:
        """Compute `layer_types` and `global_attn_every_n_layers`, each from the other.

        Raises:
            ConfigError: a layer type is unknown, their number is wrong, or the period is below 1.
        """
        count = self.num_hidden_layers
        period = self.global_attn_every_n_layers
        types = self.layer_types
        if type(period) is not int or period < 1:
            if period is not None or not types:
                raise ConfigError(
                    f"global_attn_every_n_layers is {period!r}. It must be a whole number above 0."
                )
        elif not types:
            types = periodic(count, period)
        is_list = isinstance(types, list | tuple) and len(types) == count
        if not is_list or not all(layer_type in LAYER_TYPES for layer_type in types):
            raise ConfigError(
                f"layer_types is {types!r} with {count} layers. It must name for each of them one "
                f"of {', '.join(LAYER_TYPES)}."
            )
        # `__setattr__` refuses to set a field again, so the object's dict is changed.
        self.__dict__["layer_types"] = tuple(types)
        self.__dict__["global_attn_every_n_layers"] = find_period(tuple(types), period)

    def _set_rope(self) -> None:
        """Set `rope_parameters` and the two rotary bases to the same values.

        Raises:
            ConfigError: positions are scaled, or a base is not a number.
        """
        by_layer_type = self.rope_parameters
        if not isinstance(by_layer_type, Mapping) or not by_layer_type.keys() <= {*LAYER_TYPES}:
            raise ConfigError(
                f"rope_parameters is {by_layer_type!r}. It must be an object with the names "
                f"{', '.join(LAYER_TYPES)}."
            )
        parameters = {}
        names = ("global_rope_theta", "local_rope_theta")
        for layer_type, name in zip(LAYER_TYPES, names, strict=True):
            stored = by_layer_type.get(layer_type) or {}
            theta = getattr(self, name)
            if isinstance(stored, Mapping):
                theta = stored.get("rope_theta", theta)
            plain = {"rope_theta": theta, "rope_type": "default"}
            if not isinstance(stored, Mapping) or not stored.items() <= plain.items():
                raise ConfigError(
                    f"rope_parameters: found {stored!r} for {layer_type}; allowed are rope_type "
                    "'default' and a rope_theta. Choose a model whose positions are not scaled."
                )
            parameters[layer_type] = plain
            if type(theta) not in (int, float) or not theta > 0:
                raise ConfigError(f"{name} is {theta!r}. It must be a number above 0.")
            self.__dict__[name] = theta
        self.__dict__["rope_parameters"] = parameters

    @classmethod
    def preset_sizes(cls, name: str) -> dict[str, Any]:
        sizes = PUBLISHED[name]
        return {**cls.proportions(sizes["hidden_size"]), **sizes}

    @classmethod
    def proportions(cls, hidden_size: int) -> dict[str, Any]:
        """Return BERT's heads, and narrower feed-forward layers: gates add half as many weights."""
        return {**super().proportions(hidden_size), "intermediate_size": 3 * hidden_size // 2}

    def with_dropout(self, probability: float, attention: float) -> Self:
        """Return the config with these probabilities of hidden states and of attention.

        That of hidden states also becomes the dropout of embeddings and classifier.
        """
        config = super().with_dropout(probability, attention)
        return replace(config, embedding_dropout=probability, classifier_dropout=probability)

    def with_layers(self, keep: Sequence[int], **changes: Any) -> Self:
        """Return the config with only these layers.

        Raises:
            ConfigError: the first layer is not among them.
        """
        if keep[0] != 0:
            raise ConfigError(
                f"layers: found {', '.join(map(str, keep))}; a ModernBERT needs its first layer, "
                "number 0, which alone reads embeddings without another LayerNorm. Keep it."
            )
        types = tuple(self.layer_types[number] for number in keep)
        return super().with_layers(keep, layer_types=types, **changes)


def periodic(count: int, period: int) -> tuple[str, ...]:
    """Return the types of `count` layers; layers 0, `period`, 2 · `period` … see all tokens."""
    full, sliding = LAYER_TYPES
    return tuple(sliding if number % period else full for number in range(count))


def find_period(types: tuple[str, ...], preferred: int | None) -> int | None:
    """Return the period of layer types; None if they are not periodic.

    Several periods may fit a model of few layers. Of these, `preferred` is returned if it fits, or
    else the shortest.
    """
    if preferred is not None and types == periodic(len(types), preferred):
        return preferred
    for period in range(1, len(types) + 1):
        if types == periodic(len(types), period):
            return period
    return None


def without_biases(module: ModuleT) -> ModuleT:
    """Remove the biases of all linear layers and LayerNorms in a module."""
    for submodule in module.modules():
        if isinstance(submodule, nn.Linear | nn.LayerNorm):
            submodule.register_parameter("bias", None)
    return module


class GatedFeedForward(nn.Module):
    """A feed-forward layer whose activations are multiplied by gates (Shazeer 2020, section 2).

    It maps [tokens, hidden] to the same shape, in the dtype of its weights.
    """

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__()
        self.up_gate = nn.Linear(config.hidden_size, 2 * config.intermediate_size)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size)
        self.activation = ACTIVATIONS[config.hidden_act]
        self.dropout_prob = config.hidden_dropout_prob

    def forward(self, hidden: Tensor) -> Tensor:
        up, gate = self.up_gate(hidden).chunk(2, -1)
        gated = self.activation(up) * gate
        return self.down(dropout(gated, self.dropout_prob, self.training))


class ModernBertLayer(TransformerLayer):
    """Attention, then feed-forward; each reads normalized vectors, and is added to its input."""

    def __init__(self, config: ModernBertConfig, number: int) -> None:
        super().__init__(config, number)
        self.feed_forward = GatedFeedForward(config)
        if number == 0:  # the embeddings are normalized already
            self.attention_norm = nn.Identity()
        without_biases(self)
        is_local = config.layer_types[number] == "sliding_attention"
        self.pattern = AttentionPattern(window=config.local_attention // 2) if is_local else FULL
        theta = config.local_rope_theta if is_local else config.global_rope_theta
        self.rotary = (theta, config.head_size)  # what `RowLayout.rotation` takes

    def attend(
        self,
        hidden: Tensor,
        layout: RowLayout,
        record_weights: RecordWeights | None,
        picked: PickedTokens | None,
    ) -> Tensor:
        """Normalize, then compute attention with rotary positions, and dropout on its output.

        Arguments and shapes are those of `TransformerLayer.attend`: with `picked`, only one token
        of each sequence has a query, and the result is [sequences, hidden].
        """
        attended = self.attention(
            self.attention_norm(hidden),
            layout.view(self.pattern, picked),
            record_weights,
            rotary=layout.rotation(*self.rotary),
        )
        return dropout(attended, self.attention.dropout_prob, self.training)

    def combine(self, hidden: Tensor, attended: Tensor) -> Tensor:
        """Add the output of attention to the layer's input `hidden`, then that of feed-forward.

        Both are [rows, hidden], as in `TransformerLayer.combine`.
        """
        hidden = hidden + attended
        return hidden + self.feed_forward(self.feed_forward_norm(hidden))


class ModernBertHead(ClassificationHead):
    """A classification head behind a dense layer with activation and LayerNorm.

    In a folder the dense layer and LayerNorm have the names of the masked-LM head's, so fine-tuning
    begins with their pre-trained weights.
    """

    def __init__(self, config: ModernBertConfig, num_labels: int) -> None:
        super().__init__(config, num_labels, config.classifier_dropout)
        size = config.hidden_size
        self.transform = nn.Linear(size, size, bias=False)
        self.norm = nn.LayerNorm(size, eps=config.layer_norm_eps, bias=False)
        self.activation = ACTIVATIONS[config.classifier_activation]

    def forward(self, vectors: Tensor) -> Tensor:
        return super().forward(self.norm(self.activation(self.transform(vectors))))


def _build_embeddings(config: ModernBertConfig) -> Embeddings:
    embeddings = without_biases(Embeddings(config))
    embeddings.dropout_prob = config.embedding_dropout
    return embeddings


def _initialize(module: nn.Module, config: ModernBertConfig) -> None:
    """Draw weights as transformers does: narrower where a matrix adds to the residual stream.

    The function is called for each module after its submodules. So what it draws for a
    `SelfAttention` or a head replaces what it drew for the linear layers inside.
    """
    std = config.initializer_range
    narrow_std = std / math.sqrt(2 * config.num_hidden_layers)
    classifier_std = config.hidden_size**-0.5
    if isinstance(module, nn.Linear | nn.Embedding):
        _draw(module.weight, std, config)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, SelfAttention):
        _draw(module.output.weight, narrow_std, config)
    if isinstance(module, GatedFeedForward):
        _draw(module.down.weight, narrow_std, config)
    if isinstance(module, MaskedLMHead):
        _draw(module.dense.weight, narrow_std, config)
    if isinstance(module, ModernBertHead):
        _draw(module.transform.weight, narrow_std, config)
        _draw(module.dense.weight, classifier_std, config)


def _draw(weight: Tensor, std: float, config: ModernBertConfig) -> None:
    """Draw from a normal distribution, cut off at `initializer_cutoff_factor` deviations."""
    cutoff = config.initializer_cutoff_factor * std
    if not weight.is_meta:
        nn.init.trunc_normal_(weight, std=std, a=-cutoff, b=cutoff)


MODERNBERT_KEYS: dict[str, str | None] = {
    "hidden_act": "hidden_activation",
    "hidden_dropout_prob": "mlp_dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "type_vocab_size": None,
    "layer_norm_eps": "norm_eps",
    "pooling": "classifier_pooling",
}
"""Maps a field of the config to its key in config.json; None if the field is not stored."""

FIXED_VALUES = {
    "attention_bias": False,
    "mlp_bias": False,
    "norm_bias": False,
    "classifier_bias": False,
    "decoder_bias": True,
    "sparse_prediction": False,
}
"""Entries of config.json that are the same for all models that bertsmith reads and writes."""

MODERNBERT_LAYER = "model.layers.{i}"
"""Beginning of the stored names of the layer with number `{i}`."""

MODERNBERT = Family(
    config=ModernBertConfig,
    heads={  # name of a head → function that builds it from config and number of outputs
        "masked_lm": lambda config, _: without_biases(
            MaskedLMHead(config, config.classifier_activation)
        ),
        **dict.fromkeys(TASK_HEADS, ModernBertHead),
        "answer": lambda config, _: ModernBertHead(config, 2),
    },
    names={  # our name of a module → its names in a Hugging Face folder
        "embeddings.word": ("model.embeddings.tok_embeddings",),
        "embeddings.norm": ("model.embeddings.norm",),
        "layers.{i}.attention.qkv": (f"{MODERNBERT_LAYER}.attn.Wqkv",),
        "layers.{i}.attention.output": (f"{MODERNBERT_LAYER}.attn.Wo",),
        "layers.{i}.attention_norm": (f"{MODERNBERT_LAYER}.attn_norm",),
        "layers.{i}.feed_forward.up_gate": (f"{MODERNBERT_LAYER}.mlp.Wi",),
        "layers.{i}.feed_forward.down": (f"{MODERNBERT_LAYER}.mlp.Wo",),
        "layers.{i}.feed_forward_norm": (f"{MODERNBERT_LAYER}.mlp_norm",),
        "final_norm": ("model.final_norm",),
        "heads.masked_lm.dense": ("head.dense",),
        "heads.masked_lm.norm": ("head.norm",),
        # This module itself has only the decoder's bias: its matrix is the word embedding (`tied`).
        "heads.masked_lm": ("decoder",),
        **{f"heads.{name}.transform": ("head.dense",) for name in TASK_HEADS},
        **{f"heads.{name}.norm": ("head.norm",) for name in TASK_HEADS},
        **{f"heads.{name}.dense": ("classifier",) for name in TASK_HEADS},
    },
    architectures=architectures("ModernBert"),  # heads of a model → its class in transformers
    # stored tensor → the stored tensor that it equals
    tied={"decoder.weight": "model.embeddings.tok_embeddings.weight"},
    absent={  # field → value that transformers assumes if config.json omits it
        "vocab_size": 50368,
        "hidden_size": 768,
        "num_hidden_layers": 22,
        "num_attention_heads": 12,
        "intermediate_size": 1152,
        "max_position_embeddings": 8192,
        "pad_token_id": 50283,
        "bos_token_id": 50281,
        "eos_token_id": 50282,
        "cls_token_id": 50281,
        "sep_token_id": 50282,
    },
    fixed={**FIXED_VALUES, "rope_scaling": None},  # key → the only value that is read
    written=FIXED_VALUES,  # key → value that every config.json gets
    keys=MODERNBERT_KEYS,
    # field → {our name of a value: its name in config.json}
    values={"pooling": {"first_token": "cls", "mean": "mean"}},
    base_model_prefix="model",
    # setting of pre-training → its default for new models, where other families have another one
    new_model={"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    build_embeddings=_build_embeddings,
    build_layers=lambda config: build_layers(config, ModernBertLayer),
    build_final_norm=lambda config: nn.LayerNorm(
        config.hidden_size, eps=config.layer_norm_eps, bias=False
    ),
    build_pooler=Pooling,
    initialize=_initialize,
)

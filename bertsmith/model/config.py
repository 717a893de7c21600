"""The config of a model: sizes, probabilities of dropout and the like; sizes of released models.

A *family* is a kind of model with a `model_type` of its own, such as BERT, RoBERTa or ALBERT.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, Self

from bertsmith.errors import ConfigError
from bertsmith.model.activations import ACTIVATIONS
from bertsmith.system.bounds import check_choice, check_largest

PRESETS = {
    "tiny": {"num_hidden_layers": 2, "hidden_size": 128},
    "mini": {"num_hidden_layers": 4, "hidden_size": 256},
    "small": {"num_hidden_layers": 4, "hidden_size": 512},
    "medium": {"num_hidden_layers": 8, "hidden_size": 512},
    "base": {"num_hidden_layers": 12, "hidden_size": 768},
    "large": {"num_hidden_layers": 24, "hidden_size": 1024},
}
"""Sizes of the released models: base and large of Devlin et al. 2019, the others of Turc et al.
2019. Heads are 64 wide and the feed-forward layer is 4 times the hidden size."""

SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)
"""Fields of `BertConfig` that must be whole numbers above 0."""


@dataclass(unsafe_hash=True)  # hash by value; `__setattr__` sets a field only once
class BertConfig:
    """The config of a BERT; every field has Hugging Face's name, except `pooling`.

    The configs of other families inherit from this class. Its class variables say what is the same
    for all models of a family.

    Raises:
        ConfigError: a value has the wrong type, is out of range, or contradicts another field.
    """

    model_type: ClassVar[str] = "bert"
    sizes: ClassVar[tuple[str, ...]] = SIZES
    """Fields that must be whole numbers above 0."""
    has_pooler: ClassVar[bool] = True
    """Whether a model without heads has a pooler."""
    has_position_embedding: ClassVar[bool] = True
    """Whether positions are added to the embeddings, instead of rotating queries and keys."""
    released_values: ClassVar[Mapping[str, Any]] = {}
    """Fields that have another value than the default here in all released models, and this value.
    """
    kept_feed_forward_vectors: ClassVar[int] = 2
    """Vectors of `intermediate_size` numbers that a layer keeps per token for its backward pass."""
    first_token_heads: ClassVar[tuple[str, ...]] = ()
    """Heads that read the first token's vector directly, without the pooler, by their names (such
    as "classify")."""
    poolings: ClassVar[tuple[str, ...]] = ("first_token", "mean")
    """Allowed values of `pooling`."""
    writes_labels: ClassVar[bool] = False
    """Whether the model writes the name of a class token by token, as T5 does. It then has no
    weights for classes."""
    is_recurrent: ClassVar[bool] = False
    """Whether layers read one token after another, as an LSTM does. Such layers compute only in
    fp32, and their results may be rounded differently if the batch holds other texts."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0
    classifier_dropout: float | None = None
    """Dropout before the output of a task's head; None for `hidden_dropout_prob`."""
    pooling: Literal["first_token", "mean"] = "first_token"
    """Input of the pooler: the vector of [CLS], or the mean over a sequence's tokens."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field once.

        Attributes that are not fields may be set: transformers' Trainer sets `use_cache`.
        """
        if name in self.__dict__ and name in self.__dataclass_fields__:
            raise AttributeError(f"{name}: a config is fixed. Use dataclasses.replace for another.")
        super().__setattr__(name, value)

    def __post_init__(self) -> None:
        for name in self.sizes:
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ConfigError(f"{name} is {value!r}. It must be a whole number above 0.")
            check_largest(name, value)
        for name in (field.name for field in fields(self) if "dropout" in field.name):
            value = getattr(self, name)
            # None is allowed only where it is the default.
            is_default = value is None and getattr(type(self), name) is None
            if not is_default and (type(value) not in (int, float) or not 0 <= value < 1):
                raise ConfigError(f"{name} is {value!r}. It must be at least 0 and below 1.")
        for name in ("layer_norm_eps", "initializer_range"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0 < value < 1:
                raise ConfigError(f"{name} is {value!r}. It must be above 0 and below 1.")
        pad: Any = self.pad_token_id
        may_lack_pad = type(self).pad_token_id is None  # as in the config of a GPT
        is_pad_id = type(pad) is int and 0 <= pad < self.vocab_size
        if not is_pad_id and not (pad is None and may_lack_pad):
            raise ConfigError(
                f"pad_token_id is {self.pad_token_id!r}. It must be 0 to {self.vocab_size - 1}."
            )
        if self.hidden_size % self.num_attention_heads:
            raise ConfigError(
                f"hidden_size is {self.hidden_size} with num_attention_heads "
                f"{self.num_attention_heads}. Choose a multiple of {self.num_attention_heads}."
            )
        check_choice("hidden_act", self.hidden_act, ACTIVATIONS)
        check_choice("pooling", self.pooling, self.poolings)
        if self.pooling == "mean" and self.first_token_heads:
            raise ConfigError(
                f"pooling is 'mean'. Models of the family {self.model_type} classify by the first "
                "token's vector: leave it at 'first_token'."
            )
        if self.max_length < 1:
            raise ConfigError(
                f"max_position_embeddings is {self.max_position_embeddings}. It must be above "
                f"{self.first_position}, the position of a text's first token."
            )

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.num_attention_heads

    @classmethod
    def from_preset(cls, name: str, vocab_size: int, **changes: Any) -> Self:
        """Build the config of a released size, with any field replaced.

        >>> BertConfig.from_preset("mini", vocab_size=30522).num_attention_heads
        4

        Raises:
            ConfigError: there is no such preset, or a field has a value that is not allowed.
        """
        check_choice("preset", name, PRESETS)
        return cls(**{"vocab_size": vocab_size, **cls.preset_sizes(name), **changes})

    @classmethod
    def preset_sizes(cls, name: str) -> dict[str, Any]:
        """Return the fields that a preset sets."""
        proportions = cls.proportions(PRESETS[name]["hidden_size"])
        return {**PRESETS[name], **proportions, **cls.released_values}

    @classmethod
    def proportions(cls, hidden_size: int) -> dict[str, Any]:
        """Return the fields that follow from the hidden size.

        They are the number of heads, each 64 wide, and the width of the feed-forward layer, four
        times the hidden size.
        """
        heads = max(1, hidden_size // 64)
        return {"num_attention_heads": heads, "intermediate_size": 4 * hidden_size}

    @property
    def embedding_size(self) -> int:
        """The width of word, position and segment embeddings."""
        return self.hidden_size

    @property
    def first_position(self) -> int:
        """The row of the position embedding that is added to a text's first token."""
        return 0

    @property
    def max_length(self) -> int:
        """The longest text, in tokens, that the model can read."""
        return self.max_position_embeddings - self.first_position

    @property
    def num_layers(self) -> int:
        """Number of layers that a token goes through."""
        return self.num_hidden_layers

    @property
    def shared_parts(self) -> Mapping[str, int]:
        """The parts that several layers share, each with the number of the last layer that has it.

        The names of a part's parameters begin with the part's name, such as "layers.0.attention".
        This part has the value 11 in an ALBERT of 12 layers that share their attention: layers are
        numbered from 0, and the name has the number of the first layer.
        """
        return {}

    def with_layers(self, keep: Sequence[int], **changes: Any) -> Self:
        """Return the config of a model that has only the layers `keep`, numbered from 0.

        The fields `changes` are replaced, too.
        """
        return replace(self, num_hidden_layers=len(keep), **changes)

    def with_dropout(self, probability: float, attention: float) -> Self:
        """Return the config with these probabilities for hidden states and attention weights.

        `classifier_dropout` returns to the family's default.
        """
        return replace(
            self,
            hidden_dropout_prob=probability,
            attention_probs_dropout_prob=attention,
            classifier_dropout=type(self).classifier_dropout,  # the default of the class
        )

    @classmethod
    def special_token_ids(cls, pad: int, first: int, last: int) -> dict[str, Any]:
        """Return those fields of the config that hold the ids of padding, [CLS] and [SEP].

        `first` and `last` are the ids of a row's first and last token.
        """
        ids = {"pad_token_id": pad, "bos_token_id": first, "eos_token_id": last}
        ids |= {"cls_token_id": first, "sep_token_id": last}
        field_names = {field.name for field in fields(cls)}
        return {name: number for name, number in ids.items() if name in field_names}

    def stored_layer(self, number: int) -> str:
        """Return the part of Hugging Face's names of weights that says which layer they belong to.

        It is the layer's number, unless a family writes more there, such as a group of layers.
        """
        return str(number)

"""The definition of a family of models, such as BERT or RoBERTa: its modules and its names.

Each file of model/families/ makes one `Family`. Models are built, loaded and saved by its tables
and functions. A *stored* name is one that a weight has in a Hugging Face folder.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from bertsmith.errors import ConfigError, option
from bertsmith.model.config import BertConfig
from bertsmith.model.head_names import PAIR_HEADS
from bertsmith.model.layers import Embeddings, Pooler, Pooling, TransformerLayer
from bertsmith.model.pretraining_catalog import OBJECTIVES, ObjectiveName
from bertsmith.system.small_files import SmallFiles
from bertsmith.tokenization.auto import read_tokenizer
from bertsmith.tokenization.tokenizer import Tokenizer

HeadBuilder = Callable[[Any, int], nn.Module]
"""Builds a head from the family's config and the number of its outputs."""

Tensors = Mapping[str, Tensor]
"""The tensors of a folder, by their stored names."""
Names = Mapping[str, tuple[str, ...]]
"""Hugging Face's names, by the names of our modules."""


def initialize(module: nn.Module, config: BertConfig) -> None:
    """Draw weights from a normal distribution and zero biases, as BERT's released code does.

    The released code cuts the distribution off at two standard deviations; transformers and
    bertsmith do not.
    """
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=config.initializer_range)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


def build_layers(
    config: BertConfig, layer: type[TransformerLayer] = TransformerLayer
) -> list[TransformerLayer]:
    """Build the layers, from the bottom."""
    return [layer(config, number) for number in range(config.num_layers)]


@dataclass(frozen=True)
class OwnFolder:
    """Loading and saving of a model that is not made of the parts that other families share."""

    load: Callable[[Path, Any, Mapping[str, nn.Module]], Any]
    """Loads the model from a folder, with the family's config and with heads."""
    save: Callable[[Any, Path, Tokenizer | None, Mapping[str, Any]], None]
    """Writes a model into a folder, with a tokenizer and with further entries of config.json."""


@dataclass(frozen=True)
class Family:
    """The definition of a family, for building, loading and saving its models.

    Several tables are about config.json. In their descriptions, a *field* is one of the family's
    config, by our name; a *key* is one of config.json.
    """

    config: type[BertConfig]
    """The class of the family's configs."""
    heads: Mapping[str, HeadBuilder]
    """Maps the name of each head that the family has (`HEADS` in model/head_names.py) to the
    function that builds this head."""
    names: Names
    """Maps our name of each module to the names that the module has in a Hugging Face folder, such
    as "embeddings.word" to ("bert.embeddings.word_embeddings",). A stored weight has the name of
    its module, and then `.weight` or `.bias`. If there are several names, as for query, key and
    value, our module has their weights stacked in this order. `{i}` stands for a layer: for its
    number in our name, and for `BertConfig.stored_layer` in Hugging Face's."""
    architectures: Mapping[frozenset[str], str]
    """Maps a set of heads to the class of transformers with these heads, which config.json names,
    such as {"tag"} to "BertForTokenClassification". The empty set is the encoder alone."""
    tied: Mapping[str, str]
    """Maps the stored name of a copy, such as a decoder's weight, to the stored name of the tensor
    that it equals, such as the word embedding. bertsmith saves no copies."""
    absent: Mapping[str, Any]
    """Maps a field to the value that transformers assumes where config.json omits the field. A
    field that is not in this table then has the default of `config`."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Maps a key to the only value with which bertsmith reads a folder. config.json may omit the
    key."""
    written: Mapping[str, Any] = field(default_factory=dict)
    """Maps a key to its value. These are written to every config.json of the family, beside the
    fields."""
    keys: Mapping[str, str | None] = field(default_factory=dict)
    """Maps a field to its key, where both differ, such as "hidden_size" to "dim" in DistilBERT.
    The key is None if config.json does not store the field."""
    fields_by_both_names: frozenset[str] = frozenset()
    """Fields of `keys` that transformers also reads by the field's own name (its `attribute_map`),
    where their key is missing."""
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Maps a field whose values have other names in config.json to a table of these values. The
    table maps our name of a value to its name there: "first_token" to "cls" for "pooling"."""
    whole_names: frozenset[str] = frozenset()
    """Hugging Face's names in `names` that no `.weight` follows: the tensor has this very name."""
    transposed_names: tuple[str, ...] = ()
    """Endings of the stored names of matrices that files have as [inputs, outputs]; our modules
    have them as [outputs, inputs]."""
    base_model_prefix: str = ""
    """First part of the stored names of an encoder's weights; "" if that is the `model_type`."""
    build_embeddings: Callable[[Any], Embeddings] = Embeddings
    """Builds the module that embeds a batch from the family's config."""
    build_layers: Callable[[Any], Sequence[nn.Module]] = build_layers
    """Builds the layers, from the bottom."""
    build_final_norm: Callable[[Any], nn.Module] = nn.Identity
    """Builds the module that is applied to the last layer's vectors; in BERT it does nothing."""
    build_pooler: Callable[[Any], Pooling] = Pooler
    """Builds the module that gives one vector per sequence to heads."""
    initialize: Callable[[nn.Module, Any], None] = initialize
    """Initializes a module's own parameters; it is called for its submodules first."""
    read_tokenizer: Callable[[SmallFiles, bool], Tokenizer] = lambda files, _: read_tokenizer(files)
    """Reads the tokenizer of a folder; the second argument is whether its model has the head of a
    task."""
    convert: Callable[[SmallFiles, Tensors], Tensors] = lambda _, tensors: tensors
    """Converts the tensors of a folder, such as those of a language model from which a classifier
    starts, before their names are mapped."""
    new_model: Mapping[str, Any] = field(default_factory=dict)
    """Maps a setting of pre-training, such as dropout, to its default for new models, where that
    differs from the default of most families."""
    own_folder: OwnFolder | None = None
    """Functions that load and save a model whose folder `names` does not describe: a T5 classifier.
    None for all other families."""
    dropout_keys: Mapping[str, str | None] = field(default_factory=dict)
    """Maps the name of a head to the key of its dropout, where that is not "classifier_dropout".
    The key is None if config.json stores no dropout for this head."""

    @property
    def name(self) -> str:
        return self.config.model_type

    @property
    def prefix(self) -> str:
        """The prefix of the stored names of an encoder's weights, with a dot, such as "bert."."""
        return f"{self.base_model_prefix or self.name}."

    @cached_property
    def modules(self) -> tuple[str, ...]:
        """The second parts of an encoder's stored names, such as "embeddings" and "encoder"."""
        stored_names = (name for names in self.names.values() for name in names)
        return tuple({name.split(".")[1] for name in stored_names if name.startswith(self.prefix)})

    @property
    def base(self) -> str:
        """The class of transformers without a head."""
        return self.architectures[frozenset()]

    @property
    def classifier(self) -> str:
        """The class of transformers for sequence classification."""
        return self.architectures[frozenset({"classify"})]

    def architecture(self, heads: Mapping[str, object] | tuple[str, ...]) -> str:
        """Return the class of transformers with these heads.

        Raises:
            ConfigError: there is none.
        """
        class_name = self.architectures.get(frozenset(heads))
        if class_name is None:
            raise ConfigError(
                f"heads: found {', '.join(heads)} for the family {self.name}; transformers has no "
                "class for these together. Save the model with pre-training heads that belong "
                "together, or with the head of one task, or with none."
            )
        return class_name

    def check_pretraining_heads(self, objective: ObjectiveName, heads: tuple[str, ...]) -> None:
        """Refuse pre-training heads that the family lacks or that could not be saved.

        The first of `heads` is that of `objective`.

        Raises:
            ConfigError: the family has no head of the name, or transformers has no class for these
                heads together; the message names the flag.
        """
        if heads[0] not in self.heads:
            raise ConfigError(
                f"{option('pretraining.objective')}: found {objective!r}; models of the family "
                f"{self.name} have no head for it. Pass {option('objective', self.objective)}, or "
                f"{option('family', OBJECTIVES[objective].family)}."
            )
        if frozenset(heads) not in self.architectures:
            raise ConfigError(
                f"{option('pretraining.pairs')}: found {heads[-1]!r}; models of the family "
                f"{self.name} have no head for it. Pass {option('pairs', self.pair_task)}, or "
                "choose another family."
            )

    @property
    def objective(self) -> ObjectiveName:
        """The token objective of the family's original paper."""
        # ELECTRA has the head of masked LM, too, for its generator. So the last objective of
        # `OBJECTIVES` for which the family has a head is that of its paper.
        return next((name for name in reversed(OBJECTIVES) if name in self.heads), "masked_lm")

    @property
    def first_heads(self) -> tuple[str, ...]:
        """The pre-training heads of the original paper; for ELECTRA those of its generator."""
        return ("masked_lm",) if self.pair_task == "none" else ("masked_lm", self.pair_task)

    @property
    def pair_task(self) -> str:
        """The sentence-pair objective of the family's original paper, or "none"."""
        for name in PAIR_HEADS:
            if frozenset({"masked_lm", name}) in self.architectures:
                return name
        return "none"

    def transpose(self, name: str, tensor: Tensor) -> Tensor:
        """Transpose a tensor whose Hugging Face name ends in one of `transposed_names`.

        Called twice, it returns the original.
        """
        return tensor.T.contiguous() if name.endswith(self.transposed_names) else tensor

    def final_layer(self, head: str) -> str:
        """Return Hugging Face's name of the last linear layer of a task's head."""
        return self.names[f"heads.{head}.dense"][0]

    def head_names(self, heads: tuple[str, ...]) -> tuple[str, ...]:
        """Return Hugging Face's names of all modules of these heads."""
        prefixes = tuple(f"heads.{head}." for head in heads)
        module_names = (
            names for module, names in self.names.items() if module.startswith(prefixes)
        )
        return tuple(name for names in module_names for name in names)


def architectures(stem: str) -> dict[frozenset[str], str]:
    """Map heads to the classes of transformers that most families have (`Family.architectures`).

    The names of the classes begin with `stem`, such as "Bert".
    """
    classes = {
        "masked_lm": "MaskedLM",
        "classify": "SequenceClassification",
        "multi_label": "SequenceClassification",
        "regress": "SequenceClassification",
        "tag": "TokenClassification",
        "answer": "QuestionAnswering",
        "choose": "MultipleChoice",
    }
    named = {frozenset({head}): f"{stem}For{name}" for head, name in classes.items()}
    return {frozenset[str](): f"{stem}Model", **named}

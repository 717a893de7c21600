"""The definition of a family of models: what it builds, and its names in transformers."""

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
    """The definition of a family, for building, loading and saving its models."""

    config: type[BertConfig]
    heads: Mapping[str, HeadBuilder]
    """Builders of the family's heads, by name."""
    names: Names
    """The name of each of our modules in Hugging Face's folders, with `{i}` for a layer
    (`BertConfig.stored_layer`). If there are several names, their weights are stacked, in order,
    into our module."""
    architectures: Mapping[frozenset[str], str]
    """The class of transformers for each set of heads."""
    tied: Mapping[str, str]
    """Names under which some folders store a tensor a second time, with the first name of each."""
    absent: Mapping[str, Any]
    """Defaults of transformers for fields that config.json may omit and for which `config` has no
    default."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Entries of config.json that must have this value, if they are there."""
    written: Mapping[str, Any] = field(default_factory=dict)
    """Entries that are written to every config.json of the family."""
    keys: Mapping[str, str | None] = field(default_factory=dict)
    """The name in config.json of fields that have another name there; None for fields that are not
    stored."""
    fields_by_both_names: frozenset[str] = frozenset()
    """Fields that transformers reads from config.json also by their own name (`attribute_map`), if
    their name in `keys` is not there."""
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The names in config.json of values that have other names there, by field."""
    whole_names: frozenset[str] = frozenset()
    """Hugging Face's names of modules whose tensor has that very name, without `.weight` after it.
    """
    transposed_names: tuple[str, ...] = ()
    """Endings of Hugging Face's names of matrices that are stored as [inputs, outputs]; those of
    our modules are [outputs, inputs]."""
    base_model_prefix: str = ""
    """The name prefix of an encoder's weights, where it is not the `model_type`."""
    build_embeddings: Callable[[Any], Embeddings] = Embeddings
    """Builds the module that embeds a batch from the family's config."""
    build_layers: Callable[[Any], Sequence[nn.Module]] = build_layers
    """Builds the layers, from the bottom."""
    build_final_norm: Callable[[Any], nn.Module] = nn.Identity
    """Builds the module that is applied to the last layer's vectors."""
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
    """Settings of a new model that differ from those of other families."""
    own_folder: OwnFolder | None = None
    """Functions that load and save a model in place of those that read `names`."""
    dropout_keys: Mapping[str, str | None] = field(default_factory=dict)
    """The name of a head's dropout in config.json, where it is not `classifier_dropout`; None where
    config.json has none for this head."""

    @property
    def name(self) -> str:
        return self.config.model_type

    @property
    def prefix(self) -> str:
        """The name prefix of an encoder's weights, with its dot."""
        return f"{self.base_model_prefix or self.name}."

    @cached_property
    def modules(self) -> tuple[str, ...]:
        """The encoder's parts in Hugging Face's names, such as "embeddings" and "encoder"."""
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
        # ELECTRA has the head of masked LM, too, for its generator: so the last objective counts.
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
        """Return Hugging Face's name of the last layer of a task's head."""
        return self.names[f"heads.{head}.dense"][0]

    def head_names(self, heads: tuple[str, ...]) -> tuple[str, ...]:
        """Return Hugging Face's names of all modules of these heads."""
        prefixes = tuple(f"heads.{head}." for head in heads)
        module_names = (
            names for module, names in self.names.items() if module.startswith(prefixes)
        )
        return tuple(name for names in module_names for name in names)


def architectures(stem: str) -> dict[frozenset[str], str]:
    """Return the classes of transformers that most families have, by their heads.

    Their names begin with `stem`.
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

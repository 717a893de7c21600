"""BERT and its relatives: what a file of this folder says of the family it is named after.

How a family computes is in its config (what it builds) and its heads; here is what else differs:
how transformers names weights, classes and settings. The folder is the registry: a family is a
module with `FAMILY`, named like its `model_type`.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal

from torch import nn

import bertsmith.model
from bertsmith.errors import ConfigError, check_choice

if TYPE_CHECKING:
    from bertsmith.model.bert import BertConfig

HeadBuilder = Callable[[Any, int], nn.Module]
"""Makes a head from the family's config and the number of its outputs."""

Names = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Family:
    """What the loader, the saver and the heads have to know of a family."""

    config: type["BertConfig"]
    heads: Mapping[str, HeadBuilder]
    """Those that the family has, by name."""
    names: Names
    """Our module to theirs, with `{i}` for a layer (`BertConfig.stored_layer`); where several of
    theirs are one of ours, they are stacked in order."""
    architectures: Mapping[frozenset[str], str]
    """The class of transformers that has exactly these heads."""
    tied: Mapping[str, str]
    """Second names under which some folders store a tensor again."""
    absent: Mapping[str, Any]
    """What transformers assumes where config.json is silent, of fields without a default."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Settings that config.json must have as they stand here, if it has them."""
    written: Mapping[str, Any] = field(default_factory=dict)
    """Settings that stand in every config.json of the family."""
    keys: Mapping[str, str | None] = field(default_factory=dict)
    """Fields of the config that have another name in config.json; None: no name at all."""
    dropout_keys: Mapping[str, str | None] = field(default_factory=dict)
    """What config.json calls the dropout of a head, where it is not `classifier_dropout`."""

    @property
    def name(self) -> str:
        """The `model_type`, which is also what the names of an encoder's weights begin with."""
        return self.config.model_type

    @cached_property
    def modules(self) -> tuple[str, ...]:
        """The parts of the encoder, by the first word of their names behind the family's."""
        theirs = (name for names in self.names.values() for name in names)
        return tuple({name.split(".")[1] for name in theirs if name.startswith(f"{self.name}.")})

    @property
    def base(self) -> str:
        """The class of transformers without a head."""
        return self.architectures[frozenset()]

    @property
    def classifier(self) -> str:
        """The class of transformers for whole texts."""
        return self.architectures[frozenset({"classify"})]

    def architecture(self, heads: Mapping[str, object] | tuple[str, ...]) -> str:
        """The class of transformers that has these heads.

        Raises:
            ConfigError: there is none.
        """
        found = self.architectures.get(frozenset(heads))
        if found is None:
            raise ConfigError(
                f"A model of the family {self.name} with the heads {', '.join(heads)} has no class "
                "in transformers. Save it with pre-training heads that belong together, or with "
                "the head of one task, or with none."
            )
        return found

    def check_pretraining_heads(self, heads: tuple[str, ...]) -> None:
        """Refuse to learn what a model could not be saved with.

        Raises:
            ConfigError: names the flag.
        """
        if "replaced_token" in heads and "replaced_token" not in self.heads:
            raise ConfigError(
                "pretraining.objective: found 'replaced_token'; models of the family "
                f"{self.name} have no head for it. Pass --objective masked_lm, or --family electra."
            )
        if frozenset(heads) not in self.architectures:
            raise ConfigError(
                f"pretraining.pairs: found {heads[-1]!r}; models of the family {self.name} have no "
                f"head for it. Pass --pairs {self.pair_task}, or choose another family."
            )

    @property
    def objective(self) -> Literal["masked_lm", "replaced_token"]:
        """What the family learnt of tokens when it was new."""
        return "replaced_token" if "replaced_token" in self.heads else "masked_lm"

    @property
    def first_heads(self) -> tuple[str, ...]:
        """The heads of a model that learns what the family learnt when it was new."""
        return ("masked_lm",) if self.pair_task == "none" else ("masked_lm", self.pair_task)

    @property
    def pair_task(self) -> str:
        """What the family learnt of pairs of segments when it was new, or none."""
        tasks = ("next_sentence", "sentence_order")
        return next((x for x in tasks if frozenset({"masked_lm", x}) in self.architectures), "none")

    def final_layer(self, head: str) -> str:
        """Hugging Face's name of the last layer of a head of a task."""
        return self.names[f"heads.{head}.dense"][0]

    def head_names(self, heads: tuple[str, ...]) -> tuple[str, ...]:
        """Hugging Face's names of all modules of these heads."""
        prefixes = tuple(f"heads.{head}." for head in heads)
        found = (names for ours, names in self.names.items() if ours.startswith(prefixes))
        return tuple(name for names in found for name in names)


@cache
def families() -> dict[str, Family]:
    """All families by name, in alphabetical order."""
    names = [module.name for module in pkgutil.iter_modules(bertsmith.model.__path__)]
    modules = [importlib.import_module(f"bertsmith.model.{name}") for name in sorted(names)]
    found = [module.FAMILY for module in modules if hasattr(module, "FAMILY")]
    return {family.name: family for family in found}


def family_named(name: str) -> Family:
    """The family of a `model_type`.

    Raises:
        ConfigError: there is none.
    """
    check_choice("family", name, families())
    return families()[name]


def architectures(stem: str) -> dict[frozenset[str], str]:
    """The classes that every family has in transformers; `stem` begins their names."""
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

"""The families of models (such as BERT and RoBERTa), by their `model_type` in config.json.

The definition of a family, a `Family`, says how its models are built, loaded and saved.

docs/architecture.md, "A new family", says how to add one, and docs/extending.md shows an example.
"""

import importlib
from collections.abc import Sequence

from torch import nn

from bertsmith.errors import ConfigError
from bertsmith.model.config import BertConfig
from bertsmith.model.families.albert import ALBERT
from bertsmith.model.families.bert import BERT
from bertsmith.model.families.distilbert import DISTILBERT
from bertsmith.model.families.electra import ELECTRA
from bertsmith.model.families.modernbert import MODERNBERT
from bertsmith.model.families.roberta import ROBERTA
from bertsmith.model.families.static_vectors import STATIC_VECTORS
from bertsmith.model.family import Family
from bertsmith.model.head_names import HEADS, LABEL_HEADS
from bertsmith.system.bounds import check_choice

FAMILIES: dict[str, Family] = {
    "albert": ALBERT,
    "bert": BERT,
    "distilbert": DISTILBERT,
    "electra": ELECTRA,
    "modernbert": MODERNBERT,
    "roberta": ROBERTA,
}
"""Families that are pre-trained. A module that is imported with `--import` may add a family."""
WITHOUT_LAYERS: dict[str, Family] = {"model2vec": STATIC_VECTORS}
"""Families without layers, whose vectors are counted in a corpus instead of pre-trained."""
CLASSIFIER_MODULES = {
    "gpt2": "bertsmith.lineage.gpt_classifier",
    "elmo": "bertsmith.lineage.elmo_classifier",
    "recurrent": "bertsmith.lineage.recurrent_classifier",
    "t5": "bertsmith.lineage.t5_classifier",
}
"""Systems beside BERT that classify texts, by their `model_type`: the module of each, which defines
`FAMILY`. It is imported only when a folder names the system, since bertsmith.lineage imports this
module. Of these systems, only a model with a classification head is read here; bertsmith.lineage
reads the others."""


def family_named(name: str) -> Family:
    """Return the family of a `model_type`.

    Raises:
        ConfigError: there is no such family.
    """
    if name in WITHOUT_LAYERS:
        return WITHOUT_LAYERS[name]
    if name in CLASSIFIER_MODULES:
        family: Family = importlib.import_module(CLASSIFIER_MODULES[name]).FAMILY
        return family
    check_choice("family", name, FAMILIES)
    return FAMILIES[name]


def build_heads(
    config: BertConfig, names: Sequence[str], num_labels: int | None = None
) -> dict[str, nn.Module]:
    """Build heads of `HEADS` by name, random; those of `LABEL_HEADS` need `num_labels`.

    Raises:
        ConfigError: there is no such head, the family lacks it, or `num_labels` is missing or
            below 1.
    """
    return {name: _build_head(config, name, num_labels) for name in names}


def _build_head(config: BertConfig, name: str, num_labels: int | None) -> nn.Module:
    check_choice("head", name, HEADS)
    heads = family_named(config.model_type).heads
    check_choice(f"head of a model of the family {config.model_type}", name, heads)
    if name not in LABEL_HEADS:
        # Heads of `NUMBER_HEADS` have one output; the functions of other heads ignore the number.
        return heads[name](config, 1)
    if num_labels is None or num_labels < 1:
        raise ConfigError(
            f"num_labels is {num_labels}. It must be 1 or more: the number of classes."
        )
    return heads[name](config, num_labels)

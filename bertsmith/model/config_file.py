"""Conversion of config.json to a model's config, and back.

A model's family (`Family` in model/family.py, such as BERT or RoBERTa) has tables for names that
differ: `keys` maps a config's field to its key in config.json, and `values` maps the field to the
names of its values. In this module `settings` is always the content of a config.json.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from torch import nn

from bertsmith.data.manifest import is_corpus
from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.errors.model_kinds import (
    CLASSIFIER_KINDS,
    ENCODER,
    FINE_TUNED,
    MASKED_LANGUAGE_MODEL,
    SYSTEM_KINDS,
    VECTOR_TABLE,
    ModelKind,
    ModelKindError,
)
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import CLASSIFIER_MODULES, FAMILIES, WITHOUT_LAYERS, family_named
from bertsmith.model.families.bert import BERT
from bertsmith.model.family import Family
from bertsmith.model.head_names import PAIR_HEADS, TASK_HEADS
from bertsmith.model.heads import ClassificationHead
from bertsmith.model.weights import ADAPTER_ALONE, ADAPTER_FILE
from bertsmith.system.json_text import shown_json
from bertsmith.system.small_files import SmallFiles

CONFIG_FILE = "config.json"

PROBLEM_TYPES = {
    "classify": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regress": "regression",
}
"""Value of `problem_type` in config.json for each head of a sequence classifier."""

DEFAULT_NUM_LABELS = 2
"""Outputs of a classifier in transformers if config.json does not say."""

TASK_SETTINGS = "bertsmith"
"""Key in config.json of the settings that only bertsmith has; transformers keeps the entry."""

PAIR_TASK = "pairs"
"""Key below `TASK_SETTINGS` of the task of the pair head, if that is not next sentence prediction.
"""


def family_of(settings: Mapping[str, Any]) -> Family:
    """Return the family that a config.json names, by default BERT.

    Raises:
        ConfigError: we have no such family.
    """
    return family_named(settings.get("model_type") or BERT.name)


def task_head(settings: Mapping[str, Any]) -> str | None:
    """Return the fine-tuned head of a folder with this config.json, or None."""
    architectures = settings.get("architectures") or ()
    family = family_of(settings)
    stored_type = problem_type(settings)
    for name in TASK_HEADS:
        # Several heads may have one class of transformers, such as BertForSequenceClassification,
        # and then differ in their problem type.
        # A task's head is a model's only head, and each family has a class for it.
        has_class = family.architectures[frozenset({name})] in architectures
        has_problem_type = name not in PROBLEM_TYPES or stored_type == PROBLEM_TYPES[name]
        if has_class and has_problem_type:
            # Our head for regression has one output, so a regression of several numbers has none.
            return None if name == "regress" and num_labels(settings) > 1 else name
    return None


def own_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a task stored in config.json; empty if none did."""
    # Tasks store settings with their head, or with an encoder without heads, whose class is
    # `Family.base`. In a model that has only heads of pre-training, `TASK_SETTINGS` holds nothing
    # but `PAIR_TASK`, which is not from a task.
    has_heads = family_of(settings).base not in (settings.get("architectures") or ())
    if task_head(settings) is None and has_heads:
        return {}
    return dict(settings.get(TASK_SETTINGS) or {})


def problem_type(settings: Mapping[str, Any]) -> str | None:
    """Return the problem type of a sequence classifier; None for other models.

    If config.json does not say, a single output is a regression, as in transformers. A T5, which
    writes labels as text, is a classifier only if config.json says so.
    """
    family = family_of(settings)
    if family.classifier not in (settings.get("architectures") or ()):
        return None
    if family.config.writes_labels:  # a T5: its class in transformers is that of any T5
        return settings.get("problem_type")
    default = "regression" if num_labels(settings) == 1 else PROBLEM_TYPES["classify"]
    return settings.get("problem_type") or default


def num_labels(settings: Mapping[str, Any]) -> int:
    """Return the number of outputs in config.json, by default 2."""
    named_labels = settings.get("id2label") or ()
    return int(settings.get("num_labels") or len(named_labels) or DEFAULT_NUM_LABELS)


def model_kind(settings: Mapping[str, Any]) -> ModelKind:
    """Return the kind of a model by its config.json, such as an encoder or a GPT.

    The kind decides which commands take the model.

    Raises:
        ConfigError: we have no such family.
    """
    name = settings.get("model_type") or BERT.name
    if name in SYSTEM_KINDS:  # a GPT, LSTM, ELMo, T5 or the Transformer of 2017
        is_classifier = name in CLASSIFIER_MODULES and _is_classifier(settings)
        return (CLASSIFIER_KINDS if is_classifier else SYSTEM_KINDS)[name]
    if task_head(settings) is not None:
        return FINE_TUNED
    if name in WITHOUT_LAYERS:  # static vectors
        return VECTOR_TABLE
    stored = settings.get("architectures") or ()
    architectures = family_of(settings).architectures
    has_masked_lm = any(
        "masked_lm" in heads for heads, name in architectures.items() if name in stored
    )
    return MASKED_LANGUAGE_MODEL if has_masked_lm else ENCODER


def no_model_error(directory: Path) -> CheckpointError:
    """Build the error on a folder without config.json; it says so if this is a corpus or tokenizer.

    Both are made before a model, and easily taken for one.
    """
    if is_corpus(directory):
        return CheckpointError(
            f"{directory}: this is a corpus, not a model. Train a model on it with 'bertsmith "
            "pretrain', and name the folder of that model."
        )
    has_tokenizer = any((directory / name).is_file() for name in ("tokenizer.json", "vocab.txt"))
    if has_tokenizer and not any(directory.glob("*.safetensors")):
        return CheckpointError(
            f"{directory}: this is a tokenizer, not a model. Train a model with 'bertsmith corpus "
            "build' and 'bertsmith pretrain', and name the folder of that model."
        )
    return CheckpointError(
        f"{directory}: there is no config.json. Name the folder of a checkpoint."
    )


def read_config(files: SmallFiles, *, to_classify: bool = False) -> dict[str, Any]:
    """Read the config.json of a folder.

    Most are those of encoders. Others are of *systems beside BERT* (`SYSTEM_KINDS`), models that
    are not encoders as BERT is: a GPT, LSTM, ELMo, T5 or the Transformer of 2017, which translates.
    Of these systems, only classifiers are read; with `to_classify` also those that can become
    classifiers, which are in `CLASSIFIER_MODULES`.

    Raises:
        CheckpointError: it is missing, not JSON, or describes a model of no family of ours; a
            `ModelKindError` if it is that of a system beside BERT.
    """
    file = files.path(CONFIG_FILE)
    try:
        settings: dict[str, Any] = files.read_json(CONFIG_FILE, build=_refuse_duplicate_ids)
    except FileNotFoundError as error:
        if files.has(ADAPTER_FILE):
            raise CheckpointError(f"{files.directory}: {ADAPTER_ALONE}") from error
        raise no_model_error(files.directory) from error
    name = settings.get("model_type") or BERT.name
    if isinstance(name, str) and name in SYSTEM_KINDS:
        can_classify = name in CLASSIFIER_MODULES
        if not can_classify or not (to_classify or _is_classifier(settings)):
            raise ModelKindError(file, SYSTEM_KINDS[name])
    if not isinstance(name, str) or name not in {*FAMILIES, *WITHOUT_LAYERS, *CLASSIFIER_MODULES}:
        raise CheckpointError(
            f"{file}: model_type is {name!r}. bertsmith reads models of the families "
            f"{', '.join(FAMILIES)}. Choose an encoder of one of them. For a family of your own, "
            "import its module first (on the command line: 'bertsmith COMMAND --import MODULE')."
        )
    for key, (is_allowed, allowed) in ALLOWED_VALUES.items():
        value = settings.get(key)
        if value is not None and not is_allowed(value):
            raise CheckpointError(
                f"{file}: {key} is {shown_json(value)}; allowed is {allowed}. Correct it "
                "there, or copy the file again."
            )
    return settings


def _is_classifier(settings: Mapping[str, Any]) -> bool:
    """Return whether a config.json is that of a sequence classifier, such as one on a GPT."""
    names = settings.get("architectures")
    family = family_of(settings)
    is_named = isinstance(names, list) and family.classifier in names
    return is_named and (not family.config.writes_labels or bool(settings.get("problem_type")))


def _refuse_duplicate_ids(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object; refuse a repeated key among keys that are numbers (`id2label`)."""
    values = dict(pairs)
    if len(values) < len(pairs) and all(key.isdecimal() for key in values):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key '{repeated}' appears twice")
    return values


def _is_list_of_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _names_labels(value: object) -> bool:
    try:
        return isinstance(value, dict) and all(
            int(number) >= 0 and isinstance(name, str | int | float)
            for number, name in value.items()
        )
    except ValueError:
        return False


ALLOWED_VALUES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "architectures": (_is_list_of_names, "a list of names"),
    "id2label": (_names_labels, "an object of names by the labels' numbers"),
    "num_labels": (lambda value: type(value) is int and value >= 0, "a whole number"),
    "label2id": (lambda value: isinstance(value, dict), "an object of numbers by labels"),
    TASK_SETTINGS: (lambda value: isinstance(value, dict), "an object"),
}
"""Maps a key of config.json to a function that checks its value, and to the allowed values in
words. Keys of a config's fields are not here, as the config checks its fields itself."""


def build_config(file: Path, settings: Mapping[str, Any]) -> BertConfig:
    """Build our config from `settings`, the content of the config.json `file`.

    Raises:
        CheckpointError: we have no such model.
    """
    family = family_of(settings)
    for key, allowed in family.fixed.items():
        if settings.get(key, allowed) != allowed:
            raise CheckpointError(
                f"{file}: {key} is {settings[key]!r}. bertsmith reads models whose {key} is "
                f"{allowed!r}. Choose such an encoder."
            )
    if settings.get("pruned_heads"):
        raise CheckpointError(
            f"{file}: attention heads were removed from this model (pruned_heads), and bertsmith "
            "reads only models that have all of theirs. Use the model that it was made from."
        )
    values: dict[str, Any] = {}
    for field in fields(family.config):
        # The field's key in config.json: its own name, unless `family.keys` has another. None means
        # that config.json does not store the field. Some fields may also stand by their own name.
        keys = [family.keys.get(field.name, field.name)]
        if field.name in family.fields_by_both_names:
            keys.append(field.name)
        stored_values = (settings.get(key) for key in keys if key is not None)
        present_values = [value for value in stored_values if value is not None]
        if present_values:
            value = present_values[0]
            # `family.values` has the stored name of our values, such as "cls" for "first_token".
            our_values = {stored: own for own, stored in family.values.get(field.name, {}).items()}
            values[field.name] = our_values.get(value, value) if isinstance(value, str) else value
    try:
        # `family.absent` has what transformers assumes for fields that config.json omits.
        return family.config(**{**family.absent, **values})
    except ConfigError as error:
        # The message names fields; the user's file has their keys.
        message = re.sub(r"\w+", lambda name: family.keys.get(name[0]) or name[0], str(error))
        raise CheckpointError(f"{file}: {message}") from error


def build_config_json(model: BertModel, id2label: Mapping[int, str]) -> dict[str, Any]:
    """Build config.json for transformers, with our settings below `TASK_SETTINGS`.

    A family may save its models itself (`Family.own_folder`), as that of T5 classifiers does. For
    such a model only the entries about heads, labels and task are built.

    Raises:
        ConfigError: no class of transformers has the model's heads, two labels have one name, or
            `id2label` has a number that no label has.
    """
    family = family_named(model.config.model_type)
    settings = _shape_entries(model, family) if family.own_folder is None else {}
    for name, head in model.heads.items():
        if name in TASK_HEADS:
            settings |= _head_config(name, head, id2label, family)
    own = dict(model.task_settings)
    # A model without a pair head has no `PAIR_TASK`, as if it had that of next sentence prediction.
    # Nor has a family with one pair head, such as ALBERT, whose head needs no name.
    pair_head = next((name for name in PAIR_HEADS if name in model.heads), "next_sentence")
    if pair_head != "next_sentence" and "next_sentence" in family.heads:
        own[PAIR_TASK] = pair_head
    if own:
        settings[TASK_SETTINGS] = own
    return settings


def _shape_entries(model: BertModel, family: Family) -> dict[str, Any]:
    """Return the entries of config.json from which the model without its head is built again."""
    settings: dict[str, Any] = {
        "architectures": [family.architecture(tuple(model.heads))],
        "model_type": family.name,
        "dtype": "float32",
        "torch_dtype": "float32",
        **family.written,
        "tie_word_embeddings": True,
    }
    for name, value in asdict(model.config).items():
        key = family.keys.get(name, name)
        if key is not None:  # config.json stores this field
            settings[key] = family.values[name][value] if name in family.values else value
    return settings


def _head_config(
    name: str, head: nn.Module, id2label: Mapping[int, str], family: Family
) -> dict[str, Any]:
    """Return the entries of config.json about a task's head: dropout, problem type and labels.

    Raises:
        ConfigError: two labels have one name, with which no folder could be loaded, or a label has
            a number that the head lacks.
    """
    if not isinstance(head, ClassificationHead):
        return {}
    key = family.dropout_keys.get(name, "classifier_dropout")
    settings: dict[str, Any] = {} if key is None else {key: head.dropout_prob}
    if name in PROBLEM_TYPES:
        settings["problem_type"] = PROBLEM_TYPES[name]
    # These heads have no labels: choices are counted in each batch, and the answer to a question is
    # a place in the text.
    if name in ("choose", "answer"):
        return settings
    if unknown := sorted(id2label.keys() - set(range(head.num_labels))):
        raise ConfigError(
            f"id2label names the label {unknown[0]}. The model has the labels 0 to "
            f"{head.num_labels - 1}."
        )
    names = [id2label.get(number, f"LABEL_{number}") for number in range(head.num_labels)]
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"id2label has {repeated!r} twice. Give each label a name of its own.")
    return settings | {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }

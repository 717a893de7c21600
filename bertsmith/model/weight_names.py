"""Hugging Face's names of weights, and ours.

A `Family` has the table that maps ours to theirs. In all functions `stored` has the tensors of a
folder by the names in its file, and `directory` names the folder in messages. The names in a file
may have a prefix, or be spelt as in old versions of transformers. `ModelFolder` turns them into
canonical names by these functions, in this order: `without_wrappers`, `without_common_prefix`,
`by_canonical_names`. Then it calls `check_tied`. `hugging_face_names` lists the canonical names
that belong to one of our parameters.
"""

import re
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

import torch
from torch import Tensor

from bertsmith.errors import CheckpointError, warn_once
from bertsmith.model.config import BertConfig
from bertsmith.model.families import family_named
from bertsmith.model.family import Family
from bertsmith.model.load_report import list_weights


def canonical(name: str, family: Family) -> str:
    """Return the canonical form of a name, that of today's transformers.

    Old names end in gamma and beta instead of weight and bias, or lack the prefix "bert.".

    >>> from bertsmith.model.families.bert import BERT
    >>> canonical("embeddings.LayerNorm.gamma", BERT)
    'bert.embeddings.LayerNorm.weight'
    """
    name = re.sub(r"\.gamma$", ".weight", name)
    name = re.sub(r"\.beta$", ".bias", name)
    # If a name begins with a part of the encoder, such as "embeddings.", the prefix is put before
    # it: the lookahead `(?=…)` matches without taking up letters.
    return re.sub(rf"^(?=({'|'.join(family.modules)})\.)", family.prefix, name)


def without_common_prefix(
    directory: Path, stored: Mapping[str, Tensor], family: Family
) -> Mapping[str, Tensor]:
    """Remove the prefix that DataParallel, torch.compile or Lightning put before all names; warn.

    The tensors stay as they are.

    Raises:
        CheckpointError: the encoder's names have a prefix that other names lack.
    """
    prefix = _prefix_of_encoder(stored, family)
    if not prefix:
        return stored
    others = [name for name in stored if not name.startswith(prefix)]
    if others:
        raise CheckpointError(
            f"{directory}: the names of the encoder's weights begin with {prefix!r}, those of "
            f"{list_weights(others)} do not. Save them as transformers names them, such as "
            f"{family.names['embeddings.word'][0]}.weight."
        )
    warn_once(
        f"{directory}: the names of all weights begin with {prefix!r}, as DataParallel, "
        "torch.compile or Lightning write them, and are read without it. Other programs may not "
        "find them: save the weights of the model itself, without its wrapper."
    )
    return {name.removeprefix(prefix): tensor for name, tensor in stored.items()}


WRAPPERS = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "module"}
"""Names that torch.compile, FSDP, activation checkpointing and DataParallel give to the module that
they wrap."""
ADAPTER_PARTS = ("base_layer", "lora_A", "lora_B", "lora_embedding_A", "modules_to_save")
"""Parts of names in a model that PEFT has given adapters."""


def without_wrappers(directory: Path, stored: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Remove the parts that wrappers of single modules have added to names, and warn.

    `layers.0.module.weight` becomes `layers.0.weight`. Wrappers with which all names begin are left
    to `without_common_prefix`. The tensors stay as they are.

    Raises:
        CheckpointError: the weights hold adapters of PEFT, or two names become one.
    """
    for name in stored:
        if not set(name.split(".")).isdisjoint(ADAPTER_PARTS):
            raise CheckpointError(
                f"{directory}: {name} belongs to an adapter of PEFT (such as LoRA) that stands "
                "beside the model's weights. Merge it with model.merge_and_unload(), and save "
                "what that gives."
            )
    num_leading = min(map(_count_leading_wrappers, stored), default=0)
    renamed: dict[str, str] = {}
    for name in stored:
        parts = name.split(".")
        inner_parts = [part for part in parts[num_leading:] if part not in WRAPPERS]
        plain = ".".join([*parts[:num_leading], *inner_parts])
        first = renamed.setdefault(plain, name)
        if first != name:
            raise CheckpointError(
                f"{directory}: {first} and {name} are two names of one weight; allowed is one of "
                "them. Save the weights of the model itself, without its wrapper."
            )
    changed = [name for plain, name in renamed.items() if plain != name]
    if changed:
        warn_once(
            f"{directory}: {len(changed)} names of weights, such as {changed[0]}, hold what "
            "torch.compile, FSDP or DataParallel put into them, and are read without it. Other "
            "programs may not find them: save the weights of the model itself, without its wrapper."
        )
    return {plain: stored[name] for plain, name in renamed.items()}


def _count_leading_wrappers(name: str) -> int:
    return len(list(takewhile(WRAPPERS.__contains__, name.split("."))))


def _prefix_of_encoder(stored: Mapping[str, Tensor], family: Family) -> str:
    """Find the prefix that stands before the encoder's usual names; "" if there is none."""
    word = f"{family.names['embeddings.word'][0]}.weight"
    if any(canonical(name, family) == word for name in stored):
        return ""
    for ending in (word, word.removeprefix(family.prefix)):
        for name in stored:
            if name.endswith(f".{ending}"):
                return name.removesuffix(ending)
    return ""


def by_canonical_names(
    directory: Path, stored: Mapping[str, Tensor], family: Family
) -> dict[str, Tensor]:
    """Rename tensors to their canonical names.

    Raises:
        CheckpointError: the file has two spellings of one name, with different values.
    """
    spellings: dict[str, str] = {}
    for name, tensor in stored.items():
        first = spellings.setdefault(canonical(name, family), name)
        if first != name and not torch.equal(stored[first], tensor):
            raise CheckpointError(
                f"{directory}: {first} and {name} are two names of one weight, and differ; allowed "
                "is one of them. Take the wrong one out, or save the model again."
            )
    return {name: stored[spelling] for name, spelling in spellings.items()}


def check_tied(directory: Path, tensors: Mapping[str, Tensor], family: Family) -> None:
    """Check that tied tensors have equal values, where a file has both.

    `Family.tied` lists pairs of them: a decoder's weight and the word embedding, and in most
    families the two names of the decoder's bias.

    Raises:
        CheckpointError: a tensor has other values than the one that it is tied to.
    """
    for copy, original in family.tied.items():
        is_stored_twice = copy in tensors and original in tensors
        if is_stored_twice and not torch.equal(tensors[copy], tensors[original]):
            raise CheckpointError(
                f"{directory}: {copy} differs from {original}. bertsmith reads models that tie "
                "the two, as BERT does. Choose a checkpoint whose decoder is tied."
            )


def hugging_face_names(name: str, config: BertConfig) -> tuple[str, ...]:
    """List Hugging Face's names of one of our parameters, in the config's family.

    There are several if our parameter is a stack of theirs, such as query, key and value.

    >>> hugging_face_names("layers.3.feed_forward.up.bias", BertConfig(30_522, 768, 12, 12, 3072))
    ('bert.encoder.layer.3.intermediate.dense.bias',)
    """
    module, _, parameter = name.rpartition(".")  # `parameter` is "weight" or "bias"
    family = family_named(config.model_type)
    layer = re.match(r"layers\.(\d+)\.", module)
    if layer is None:
        return tuple(
            stored_name if stored_name in family.whole_names else f"{stored_name}.{parameter}"
            for stored_name in family.names[module]
        )
    # The layer's number, or in ALBERT the name of its group: layers that share all weights have the
    # same stored names.
    stored_layer = config.stored_layer(int(layer[1]))
    module_of_any_layer = re.sub(r"^layers\.\d+\.", "layers.{i}.", module)
    return tuple(
        f"{stored_name.replace('{i}', stored_layer)}.{parameter}"
        for stored_name in family.names[module_of_any_layer]
    )

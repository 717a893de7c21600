"""Loading and saving a T5 as a folder of transformers' `t5`.

A T5 may scale its outputs, and it may tie its output layer to the embedding. In older versions of
transformers, the entry `tie_word_embeddings` of config.json decides both. Version 5 writes true
there in any case; `scale_decoder_outputs` decides about the scale, and the output layer is tied
unless the weights contain one. So we write both entries, and the output layer only if it is not
tied. The `FolderMap` at the end describes how config.json and the names of weights in the folder
correspond to our model.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertsmith.lineage.system_folder import FolderMap, load_system, remove_copy, save_system
from bertsmith.lineage.t5 import T5, T5Config
from bertsmith.tokenization.tokenizer import Tokenizer

# Names in a folder: of the word embedding, of the output layer, and of copies of the embedding.
WORD = "shared.weight"
OUTPUT = "lm_head.weight"
COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
UNUSED = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
"""A weight of old folders that nothing reads."""

MODULES = {
    "attention_norm": ("layer.0.layer_norm",),
    "attention.qkv": tuple(f"layer.0.SelfAttention.{side}" for side in "qkv"),
    "attention.output": ("layer.0.SelfAttention.o",),
    "source_attention_norm": ("layer.1.layer_norm",),
    "source_attention.query": ("layer.1.EncDecAttention.q",),
    "source_attention.key_value": tuple(f"layer.1.EncDecAttention.{side}" for side in "kv"),
    "source_attention.output": ("layer.1.EncDecAttention.o",),
}
"""Maps our name of each module in a layer, except in feed-forward layers, to transformers' names.
"""
FEED_FORWARD_MODULES = {
    "feed_forward_norm": ("layer_norm",),
    "feed_forward.up": ("DenseReluDense.wi",),
    "feed_forward.up_gate": ("DenseReluDense.wi_0", "DenseReluDense.wi_1"),
    "feed_forward.down": ("DenseReluDense.wo",),
}
"""Maps our name of each module of feed-forward to transformers' names. These follow the prefix of
feed-forward in its layer, such as "layer.1"."""
OUTSIDE_LAYERS = {
    "word": WORD,
    "output": OUTPUT,
    "encoder_bias": "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
    "decoder_bias": "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
    "encoder_norm": "encoder.final_layer_norm.weight",
    "decoder_norm": "decoder.final_layer_norm.weight",
}
"""Maps our name of each module outside of layers to the name of its weight in transformers."""


def load_t5(path: str | Path) -> T5:
    """Load a T5 from a folder of transformers' `t5`, or from the Hugging Face hub.

    The model is in fp32, on the CPU, in evaluation mode.

    Raises:
        CheckpointError: there is no such folder, or it is incomplete, damaged, or of another model.
    """
    return load_system(T5_FOLDER, path)


def save_t5(
    model: T5,
    directory: str | Path,
    tokenizer: Tokenizer | None = None,
    entries: Mapping[str, Any] | None = None,
) -> None:
    """Write a folder that transformers opens as a T5ForConditionalGeneration; weights are in fp32.

    Each file is replaced whole or not at all.

    Args:
        entries: further entries of config.json, such as the names of classes.

    Raises:
        CheckpointError: the tokenizer has more tokens than the model has embeddings.
    """
    save_system(T5_FOLDER, model, Path(directory), tokenizer, entries)


def list_weight_names(model: T5) -> tuple[str, ...]:
    """Return transformers' names of all weights, sorted."""
    return tuple(sorted(theirs for name in model.state_dict() for theirs in _names_in_folder(name)))


def _clean_weights(directory: Path, stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """Remove copies of the word embedding, and an output layer that equals it.

    Raises:
        CheckpointError: source and target have different embeddings.
    """
    tensors = {name: tensor for name, tensor in stored.items() if name != UNUSED}
    problem = (
        "bertsmith reads a T5 whose source and target share one embedding. Choose such a model."
    )
    for copy in COPIES:
        if copy in tensors and WORD not in tensors:
            tensors[WORD] = tensors[copy]
        remove_copy(directory, tensors, copy, WORD, problem)
    if OUTPUT in tensors and WORD in tensors and torch.equal(tensors[OUTPUT], tensors[WORD]):
        del tensors[OUTPUT]
    return tensors


def _convert_entries(settings: Mapping[str, Any], names: Collection[str]) -> Mapping[str, Any]:
    """Translate entries of config.json; the module's docstring says how versions differ."""
    was_scaled = settings.get("tie_word_embeddings") is not False  # in older versions
    return {
        **settings,
        "num_decoder_layers": settings.get("num_decoder_layers") or settings.get("num_layers", 6),
        "tie_word_embeddings": OUTPUT not in names,
        "scale_decoder_outputs": settings.get("scale_decoder_outputs", was_scaled),
    }


def _names_in_folder(name: str) -> tuple[str, ...]:
    """Return transformers' names of a weight.

    >>> _names_in_folder("decoder.3.feed_forward.up_gate.weight")[0]
    'decoder.block.3.layer.2.DenseReluDense.wi_0.weight'
    """
    path = name.removesuffix(".weight")
    if path in OUTSIDE_LAYERS:
        return (OUTSIDE_LAYERS[path],)
    stack, number, module = path.split(".", 2)
    theirs = MODULES.get(module)
    if theirs is None:
        # The feed-forward is the last part of a layer: the third one in a decoder.
        last = "layer.2" if stack == "decoder" else "layer.1"
        theirs = tuple(f"{last}.{part}" for part in FEED_FORWARD_MODULES[module])
    return tuple(f"{stack}.block.{number}.{part}.weight" for part in theirs)


def _factor(name: str, config: T5Config) -> float:
    """Return the factor from the folder's weight of this name to ours (`T5Config.query_factor`)."""
    return config.query_factor if name.endswith("Attention.q.weight") else 1.0


T5_FOLDER = FolderMap(
    noun="a T5",
    architecture="T5ForConditionalGeneration",
    config=T5Config,
    build=T5,
    fixed={"model_type": "t5"},
    names_in_folder=_names_in_folder,
    clean_weights=_clean_weights,
    convert_entries=_convert_entries,
    factor=_factor,
    extra_entries={"is_encoder_decoder": True},  # written to every config.json beside the fields
    other_names={  # key → another name that config.json may have for it
        "d_model": "hidden_size",
        "d_kv": "head_dim",
        "num_layers": "num_hidden_layers",
        "num_heads": "num_attention_heads",
    },
    advice="Load a model that writes, such as a T5ForConditionalGeneration.",
)

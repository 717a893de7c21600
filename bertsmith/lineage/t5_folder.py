"""Folders of transformers' `t5` to our T5, and back.

Whether outputs are scaled and whether the output layer is tied are two questions. Older versions
of transformers answer both by `tie_word_embeddings`; version 5 sets that to true, asks
`scale_decoder_outputs`, and ties unless the file has another output layer. So both entries are
written, and the output layer only where it differs.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertsmith.lineage.system_folder import FolderMap, load_system, save_system, without_copy
from bertsmith.lineage.t5 import T5, T5Config
from bertsmith.tokenization.tokenizer import Tokenizer

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
"""Names of a layer's modules in transformers by ours, but for the feed-forward."""
WHOLE = {
    "word": WORD,
    "output": OUTPUT,
    "encoder_bias": "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
    "decoder_bias": "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
    "encoder_norm": "encoder.final_layer_norm.weight",
    "decoder_norm": "decoder.final_layer_norm.weight",
}
"""Names of weights outside of layers in transformers by ours."""


def load_t5(path: str | Path) -> T5:
    """Load a T5 from a folder of transformers' `t5`, or from the Hugging Face hub.

    The model is in fp32, on the CPU, in evaluation mode.

    Raises:
        CheckpointError: there is no such folder, or it is incomplete, damaged, or of another model.
    """
    return load_system(T5_FOLDER, path)


def save_t5(model: T5, directory: str | Path, tokenizer: Tokenizer | None = None) -> None:
    """Write a folder that transformers opens as a T5ForConditionalGeneration; weights are in fp32.

    Each file is replaced whole or not at all.

    Raises:
        CheckpointError: the tokenizer has more tokens than the model has embeddings.
    """
    save_system(T5_FOLDER, model, Path(directory), tokenizer)


def _without_copies(directory: Path, stored: dict[str, Tensor]) -> dict[str, Tensor]:
    tensors = {name: tensor for name, tensor in stored.items() if name != UNUSED}
    problem = (
        "bertsmith reads a T5 whose source and target share one embedding. Choose such a model."
    )
    for copy in COPIES:
        if copy in tensors and WORD not in tensors:
            tensors[WORD] = tensors[copy]
        without_copy(directory, tensors, copy, WORD, problem)
    if OUTPUT in tensors and WORD in tensors and torch.equal(tensors[OUTPUT], tensors[WORD]):
        del tensors[OUTPUT]
    return tensors


def _shape_of(settings: Mapping[str, Any], names: Collection[str]) -> Mapping[str, Any]:
    is_scaled = settings.get("tie_word_embeddings") is not False
    return {
        **settings,
        "num_decoder_layers": settings.get("num_decoder_layers") or settings.get("num_layers", 6),
        "tie_word_embeddings": OUTPUT not in names,
        "scale_decoder_outputs": settings.get("scale_decoder_outputs", is_scaled),
    }


def _their_names(name: str) -> tuple[str, ...]:
    """Return transformers' names of a weight.

    >>> _their_names("decoder.3.feed_forward.up_gate.weight")[0]
    'decoder.block.3.layer.2.DenseReluDense.wi_0.weight'
    """
    whole = name.removesuffix(".weight")
    if whole in WHOLE:
        return (WHOLE[whole],)
    stack, number, module = whole.split(".", 2)
    fed = f"layer.{2 if stack == 'decoder' else 1}"
    theirs = (
        MODULES.get(module)
        or {
            "feed_forward_norm": (f"{fed}.layer_norm",),
            "feed_forward.up": (f"{fed}.DenseReluDense.wi",),
            "feed_forward.up_gate": (f"{fed}.DenseReluDense.wi_0", f"{fed}.DenseReluDense.wi_1"),
            "feed_forward.down": (f"{fed}.DenseReluDense.wo",),
        }[module]
    )
    return tuple(f"{stack}.block.{number}.{each}.weight" for each in theirs)


T5_FOLDER = FolderMap(
    noun="a T5",
    architecture="T5ForConditionalGeneration",
    config=T5Config,
    build=T5,
    fixed={"model_type": "t5"},
    their_names=_their_names,
    read=_without_copies,
    shape_of=_shape_of,
    written={"is_encoder_decoder": True},
    advice="Load a model that writes, such as a T5ForConditionalGeneration.",
)

"""Loading and saving a GPT as a folder of transformers' `gpt2`.

The `FolderMap` at the end describes how config.json and the names of weights in the folder
correspond to our model; the functions before it are parts of this description.
"""

import re
from pathlib import Path

from torch import Tensor

from bertsmith.lineage.gpt import Gpt, GptConfig
from bertsmith.lineage.system_folder import FolderMap, load_system, remove_copy, save_system
from bertsmith.tokenization.tokenizer import Tokenizer

PREFIX = "transformer."
"""Prefix of the names of all weights, except in folders of a model without an output layer."""
NOT_LEARNED = re.compile(r"h\.\d+\.attn\.(masked_)?bias")
"""Names of attention masks, which older folders store as if they were weights."""

MODULES = {"wte": "word", "wpe": "position", "ln_f": "final_norm"}
"""Maps transformers' name of each module outside of layers to ours."""
LAYER_MODULES = {
    "ln_1": "attention_norm",
    "attn.c_attn": "attention.qkv",
    "attn.c_proj": "attention.output",
    "ln_2": "feed_forward_norm",
    "mlp.c_fc": "up",
    "mlp.c_proj": "down",
}
"""Maps transformers' name of each module in a layer to ours."""
THEIR_MODULES = {ours: theirs for theirs, ours in (MODULES | LAYER_MODULES).items()}
"""Maps our name of each module to transformers' name."""
TRANSPOSED = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
"""Endings of the names of matrices that are stored as [inputs, outputs], not [outputs, inputs]."""


def load_gpt(path: str | Path) -> Gpt:
    """Load a GPT from a folder of transformers' `gpt2`, or from the Hugging Face hub.

    The model is in fp32, on the CPU, in evaluation mode.

    Raises:
        CheckpointError: there is no such folder, or it is incomplete, damaged, or of another model.
    """
    return load_system(GPT_FOLDER, path)


def save_gpt(model: Gpt, directory: str | Path, tokenizer: Tokenizer | None = None) -> None:
    """Write a folder that transformers opens as a GPT2LMHeadModel; weights are in fp32.

    Each file is replaced whole or not at all.

    Raises:
        CheckpointError: the tokenizer has more tokens than the model has embeddings.
    """
    save_system(GPT_FOLDER, model, Path(directory), tokenizer)


def _clean_weights(directory: Path, stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """Give all weights the prefix, and remove masks and the copy of the word embedding.

    Raises:
        CheckpointError: the output layer has weights of its own.
    """
    tensors = {
        name if name == "lm_head.weight" else PREFIX + name.removeprefix(PREFIX): tensor
        for name, tensor in stored.items()
        if not NOT_LEARNED.fullmatch(name.removeprefix(PREFIX))
    }
    problem = (
        "bertsmith reads a GPT whose output layer has the weights of the word embedding. Choose "
        "such a model."
    )
    remove_copy(directory, tensors, "lm_head.weight", f"{PREFIX}wte.weight", problem)
    return tensors


def _names_in_folder(name: str) -> tuple[str, ...]:
    """Return transformers' name of a weight.

    >>> _names_in_folder("layers.3.attention.qkv.weight"), _names_in_folder("word.weight")
    (('transformer.h.3.attn.c_attn.weight',), ('transformer.wte.weight',))
    """
    module, parameter = name.rsplit(".", 1)  # `parameter` is "weight" or "bias"
    if not module.startswith("layers."):
        return (f"{PREFIX}{THEIR_MODULES[module]}.{parameter}",)
    _, number, module = module.split(".", 2)
    return (f"{PREFIX}h.{number}.{THEIR_MODULES[module]}.{parameter}",)


GPT_FOLDER = FolderMap(
    noun="a GPT",
    architecture="GPT2LMHeadModel",
    config=GptConfig,
    build=Gpt,
    fixed={  # key of config.json → the only value that is read
        "model_type": "gpt2",
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
    },
    names_in_folder=_names_in_folder,
    clean_weights=_clean_weights,
    is_transposed=lambda name: name.endswith(TRANSPOSED),
    # Key → value that transformers assumes if config.json omits it.
    absent={"bos_token_id": 50256, "eos_token_id": 50256},
    other_names={  # key → another name that config.json may have for it
        "n_embd": "hidden_size",
        "n_layer": "num_hidden_layers",
        "n_head": "num_attention_heads",
        "n_positions": "max_position_embeddings",
    },
    advice="Load a language model, such as a GPT2LMHeadModel.",
)

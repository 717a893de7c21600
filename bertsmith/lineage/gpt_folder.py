"""Folders of transformers' `gpt2` to our GPT, and back."""

import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.lineage.gpt import Gpt, GptConfig
from bertsmith.model.config_file import CONFIG_FILE
from bertsmith.model.families import FAMILIES
from bertsmith.model.hub import find_checkpoint
from bertsmith.model.load_report import list_weights
from bertsmith.model.meta_init import skeleton
from bertsmith.model.weight_formats.safetensors_file import write_safetensors
from bertsmith.model.weights import read_weights
from bertsmith.system.files import write_json
from bertsmith.system.run_state import check_finished
from bertsmith.system.small_files import SmallFiles
from bertsmith.system.sums import check_sums, summed
from bertsmith.tokenization.tokenizer import Tokenizer

PREFIX = "transformer."
"""Before the names of all weights, unless the folder is of a model without output layer."""
TIED = "lm_head.weight"
"""The output layer, if it is stored: a copy of the word embedding."""
NOT_LEARNED = re.compile(r"h\.\d+\.attn\.(masked_)?bias")
"""Masks that older folders store."""

MODULES = {"wte": "word", "wpe": "position", "ln_f": "final_norm"}
LAYER_MODULES = {
    "ln_1": "attention_norm",
    "attn.c_attn": "attention.qkv",
    "attn.c_proj": "attention.output",
    "ln_2": "feed_forward_norm",
    "mlp.c_fc": "up",
    "mlp.c_proj": "down",
}
IN_OUT = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
"""Matrices that are stored as [inputs, outputs]; ours are [outputs, inputs]."""

FIXED = {
    "model_type": "gpt2",
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
"""Entries of config.json that decide what is computed, and the values that we compute."""


def load_gpt(path: str | Path) -> Gpt:
    """Load a GPT from a folder of transformers' `gpt2`, or from the Hugging Face hub.

    The model is in fp32, on the CPU, in evaluation mode.

    Raises:
        CheckpointError: there is no such folder, or it is incomplete, damaged, or of another model.
    """
    directory = find_checkpoint(path)
    files = SmallFiles(directory)
    check_finished(files)
    check_sums(files)
    try:
        settings: Mapping[str, Any] = files.read_json(CONFIG_FILE)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CheckpointError(
            f"{directory}: there is no config.json. Name the folder of a checkpoint."
        ) from error
    config = _build_config(files.path(CONFIG_FILE), settings)
    with skeleton():
        model = Gpt(config)
    tensors = _read_tensors(directory)
    expected = {_their_name(name): tensor.shape for name, tensor in model.state_dict().items()}
    if missing := sorted(expected.keys() - tensors.keys()):
        raise CheckpointError(
            f"{directory}: the weights {list_weights(missing)} are missing. Copy the folder again."
        )
    if others := sorted(tensors.keys() - expected.keys()):
        raise CheckpointError(
            f"{directory}: a GPT has no place for the weights {list_weights(others)}. Load a "
            "language model, such as a GPT2LMHeadModel."
        )
    for name, shape in expected.items():
        stored = _turned(name, tensors[name])
        if stored.shape != shape:
            raise CheckpointError(
                f"{directory}: {name} has the shape {list(tensors[name].shape)}, which does not "
                "fit config.json. Copy both again from one model."
            )
    values = {}
    for name in model.state_dict():
        their_name = _their_name(name)
        values[name] = _turned(their_name, tensors[their_name]).float().contiguous()
    model.load_state_dict(values, assign=True)
    return model.eval()


def save_gpt(model: Gpt, directory: str | Path, tokenizer: Tokenizer | None = None) -> None:
    """Write a folder that transformers opens as a GPT2LMHeadModel; weights are in fp32.

    Each file is replaced whole or not at all.

    Raises:
        CheckpointError: the tokenizer has more tokens than the model has embeddings.
    """
    directory = Path(directory)
    if tokenizer is not None and tokenizer.vocab_size > model.config.vocab_size:
        raise CheckpointError(
            f"{directory}: the tokenizer has {tokenizer.vocab_size:,} tokens, the embedding "
            f"{model.config.vocab_size:,}. Save the tokenizer that the model was trained with."
        )
    tensors = {}
    for name, tensor in model.state_dict().items():
        their_name = _their_name(name)
        tensors[PREFIX + their_name] = _turned(their_name, tensor.float())
    write_safetensors(directory / "model.safetensors", tensors)
    with summed(directory, CONFIG_FILE):
        settings = {
            "architectures": ["GPT2LMHeadModel"],
            "dtype": "float32",
            "torch_dtype": "float32",
            **FIXED,
            **asdict(model.config),
        }
        write_json(directory / CONFIG_FILE, settings)
    if tokenizer is not None:
        tokenizer.save(directory)


def _build_config(file: Path, settings: Mapping[str, Any]) -> GptConfig:
    if (name := settings.get("model_type")) in FAMILIES:
        raise CheckpointError(
            f"{file}: a model of the family {name}, which reads whole texts and so cannot continue "
            "one. Use 'bertsmith fill' for hidden words, or train a GPT with 'bertsmith pretrain "
            "gpt'."
        )
    for key, allowed in FIXED.items():
        if settings.get(key, allowed) != allowed:
            raise CheckpointError(
                f"{file}: {key} is {settings[key]!r}. bertsmith reads a GPT whose {key} is "
                f"{allowed!r}. Choose such a model."
            )
    names = [field.name for field in fields(GptConfig)]
    try:
        return GptConfig(**{name: settings[name] for name in names if name in settings})
    except (ConfigError, TypeError) as error:
        raise CheckpointError(f"{file}: {error}") from error


def _read_tensors(directory: Path) -> dict[str, Tensor]:
    """Read the learned weights by their names without prefix, in their shapes and dtypes."""
    tensors = {
        name.removeprefix(PREFIX): tensor
        for name, tensor in read_weights(directory).items()
        if not NOT_LEARNED.fullmatch(name.removeprefix(PREFIX))
    }
    output = tensors.pop(TIED, None)
    if (
        output is not None
        and "wte.weight" in tensors
        and not torch.equal(output, tensors["wte.weight"])
    ):
        raise CheckpointError(
            f"{directory}: {TIED} differs from the word embedding. bertsmith reads a GPT whose "
            "output layer has the weights of the word embedding. Choose such a model."
        )
    return tensors


def _their_name(name: str) -> str:
    """Return transformers' name of a weight, without prefix.

    >>> _their_name("layers.3.attention.qkv.weight"), _their_name("word.weight")
    ('h.3.attn.c_attn.weight', 'wte.weight')
    """
    module, kind = name.rsplit(".", 1)
    if not module.startswith("layers."):
        return f"{OURS[module]}.{kind}"
    _, number, module = module.split(".", 2)
    return f"h.{number}.{OURS[module]}.{kind}"


OURS = {ours: theirs for theirs, ours in (MODULES | LAYER_MODULES).items()}
"""Names of modules in transformers by ours."""


def _turned(their_name: str, tensor: Tensor) -> Tensor:
    """Turn a matrix that is stored the other way; the same turns it back."""
    return tensor.T if their_name.endswith(IN_OUT) else tensor

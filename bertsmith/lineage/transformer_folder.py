"""Loading and saving a Transformer as a folder of transformers' `marian`.

The `FolderMap` at the end describes how config.json and the names of weights in the folder
correspond to our model; the functions before it are parts of this description.
"""

from pathlib import Path

from torch import Tensor

from bertsmith.lineage.system_folder import FolderMap, load_system, remove_copy, save_system
from bertsmith.lineage.transformer import Transformer, TransformerConfig
from bertsmith.tokenization.tokenizer import Tokenizer

WORD = "model.shared.weight"
"""Name of the word embedding."""
COPIES = (
    "lm_head.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
)
"""Names of copies of the word embedding, which some folders store."""
SINES = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
"""Names of the fixed position vectors, which older folders store."""
BIAS = "final_logits_bias"
"""Name of the numbers that are added to the logits."""

MODULES = {
    "attention.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.output": ("self_attn.out_proj",),
    "attention_norm": ("self_attn_layer_norm",),
    "source_attention.query": ("encoder_attn.q_proj",),
    "source_attention.key_value": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "source_attention.output": ("encoder_attn.out_proj",),
    "source_attention_norm": ("encoder_attn_layer_norm",),
    "feed_forward.up": ("fc1",),
    "feed_forward.down": ("fc2",),
    "feed_forward_norm": ("final_layer_norm",),
}
"""Maps our name of each module in a layer to its names in transformers."""


def load_transformer(path: str | Path) -> Transformer:
    """Load a Transformer from a folder of transformers' `marian`, or from the Hugging Face hub.

    The model is in fp32, on the CPU, in evaluation mode.

    Raises:
        CheckpointError: there is no such folder, or it is incomplete, damaged, or of another model.
    """
    return load_system(TRANSFORMER_FOLDER, path)


def save_transformer(
    model: Transformer, directory: str | Path, tokenizer: Tokenizer | None = None
) -> None:
    """Write a folder that transformers opens as a MarianMTModel; weights are in fp32.

    Each file is replaced whole or not at all.

    Raises:
        CheckpointError: the tokenizer has more tokens than the model has embeddings.
    """
    save_system(TRANSFORMER_FOLDER, model, Path(directory), tokenizer)


def _clean_weights(directory: Path, stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """Remove sines and copies of the word embedding; add the logits' bias if it is missing."""
    tensors = {name: tensor for name, tensor in stored.items() if name not in SINES}
    problem = (
        "bertsmith reads a Transformer whose source, target and output share one embedding. Choose "
        "such a model."
    )
    for copy in COPIES:
        if copy in tensors and WORD not in tensors:
            tensors[WORD] = tensors[copy]
        remove_copy(directory, tensors, copy, WORD, problem)
    if BIAS not in tensors and WORD in tensors:
        tensors[BIAS] = tensors[WORD].new_zeros(1, len(tensors[WORD]))
    return tensors


def _names_in_folder(name: str) -> tuple[str, ...]:
    """Return transformers' names of a weight.

    >>> _names_in_folder("decoder.1.source_attention.key_value.bias")[1]
    'model.decoder.layers.1.encoder_attn.v_proj.bias'
    """
    if name == "word.weight":
        return (WORD,)
    if name == "logit_bias":
        return (BIAS,)
    stack, number, rest = name.split(".", 2)
    module, parameter = rest.rsplit(".", 1)  # `parameter` is "weight" or "bias"
    layer = f"model.{stack}.layers.{number}"
    return tuple(f"{layer}.{theirs}.{parameter}" for theirs in MODULES[module])


TRANSFORMER_FOLDER = FolderMap(
    noun="a Transformer",
    architecture="MarianMTModel",
    config=TransformerConfig,
    build=Transformer,
    fixed={  # key of config.json → the only value that is read
        "model_type": "marian",
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "static_position_embeddings": True,
        "normalize_embedding": False,
        "normalize_before": False,
        "add_final_layer_norm": False,
    },
    names_in_folder=_names_in_folder,
    clean_weights=_clean_weights,
    # Written to every config.json beside the fields.
    extra_entries={"is_encoder_decoder": True, "forced_eos_token_id": None, "bos_token_id": None},
    absent={  # key → value that transformers assumes if config.json omits it
        "d_model": 1024,
        "encoder_layers": 12,
        "decoder_layers": 12,
        "encoder_attention_heads": 16,
        "decoder_attention_heads": 16,
        "encoder_ffn_dim": 4096,
        "decoder_ffn_dim": 4096,
        "max_position_embeddings": 1024,
        "activation_function": "gelu",
        "pad_token_id": 58100,
        "decoder_start_token_id": 58100,
        "scale_embedding": False,
    },
    other_names={  # key → another name that config.json may have for it
        "d_model": "hidden_size",
        "encoder_layers": "num_hidden_layers",
        "encoder_attention_heads": "num_attention_heads",
    },
    advice="Load a translation model, such as a MarianMTModel.",
)

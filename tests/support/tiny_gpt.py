"""Small GPTs of transformers with random weights."""

import torch
import transformers

SHAPE = {
    "vocab_size": 101, "n_embd": 36, "n_layer": 2, "n_head": 3, "n_positions": 140,
    "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2,
}  # fmt: skip


def build_theirs(seed=0, std=0.2, **changes):
    """Build a GPT2LMHeadModel whose weights, biases included, are drawn with deviation `std`."""
    torch.manual_seed(seed)
    config = transformers.GPT2Config(**SHAPE | changes, attn_implementation="eager")
    model = transformers.GPT2LMHeadModel(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=std)
    return model

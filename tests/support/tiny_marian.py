"""Small Transformers of transformers with random weights, and pairs of token ids for them."""

import torch
import transformers

SHAPE = {
    "vocab_size": 101, "decoder_vocab_size": 101, "d_model": 36, "encoder_layers": 2,
    "decoder_layers": 3, "encoder_attention_heads": 3, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 44, "decoder_ffn_dim": 52, "max_position_embeddings": 61,
    "dropout": 0.0, "activation_function": "relu", "scale_embedding": True, "pad_token_id": 0,
    "eos_token_id": 2, "decoder_start_token_id": 1, "forced_eos_token_id": None,
}  # fmt: skip
EOS = SHAPE["eos_token_id"]


def build_theirs(seed=0, std=0.15, **changes):
    """Build a MarianMTModel whose weights, biases included, are drawn with deviation `std`.

    Those of LayerNorm are drawn around 1, as a Transformer of 2017 loses what a layer adds if its
    norms shrink.
    """
    torch.manual_seed(seed)
    config = transformers.MarianConfig(**SHAPE | changes, attn_implementation="eager")
    model = transformers.MarianMTModel(config).eval()
    for name, parameter in model.named_parameters():
        if "embed_positions" not in name:
            is_scale = "norm" in name and name.endswith("weight")
            torch.nn.init.normal_(parameter, mean=float(is_scale), std=std)
    return model


def draw_sequences(lengths, seed=1, size=101):
    """Draw sequences of ids that end with the end token."""
    generator = torch.Generator().manual_seed(seed)
    return [
        [*torch.randint(3, size, (length - 1,), generator=generator).tolist(), EOS]
        for length in lengths
    ]


def pad(sequences, value):
    """Pad sequences on the right, int64 [sequences, length]."""
    longest = max(map(len, sequences))
    return torch.tensor([[*each, *[value] * (longest - len(each))] for each in sequences])

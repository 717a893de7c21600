"""Small T5s of transformers with random weights, of both versions."""

import torch
import transformers

SHAPE = {
    "vocab_size": 101, "d_model": 36, "d_kv": 10, "d_ff": 44, "num_layers": 2,
    "num_decoder_layers": 2, "num_heads": 3, "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 20, "dropout_rate": 0.0, "pad_token_id": 0,
    "eos_token_id": 2, "decoder_start_token_id": 0,
}  # fmt: skip
VERSIONS = {"1.0": {}, "1.1": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}}


def build_theirs(version="1.0", seed=0, std=0.15, **changes):
    """Build a T5ForConditionalGeneration; weights of norms are drawn around 1, others around 0."""
    torch.manual_seed(seed)
    settings = SHAPE | VERSIONS[version] | changes
    config = transformers.T5Config(**settings, attn_implementation="eager")
    model = transformers.T5ForConditionalGeneration(config).eval()
    if version == "1.1":
        model.lm_head.weight = torch.nn.Parameter(torch.empty(101, 36))
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, mean=float("layer_norm" in name), std=std)
    return model

"""Small T5s with random weights: of transformers, of both versions, and ours with a tokenizer."""

import string

import torch
import transformers
from tiny_models import NUM_POSITIONS, tiny_tokenizer

from bertsmith.lineage.t5 import T5, T5Config
from bertsmith.lineage.t5_folder import save_t5
from bertsmith.tokenization.wordpiece import WordPieceTokenizer

LETTERS = string.ascii_lowercase + string.digits + ":"

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


def spelling_tokenizer():
    """Build a tokenizer that can spell any word of small letters and digits."""
    inner = [f"##{letter}" for letter in LETTERS]
    pieces = dict.fromkeys([*tiny_tokenizer().vocab, *LETTERS, *inner])
    return WordPieceTokenizer(list(pieces), model_max_length=NUM_POSITIONS)


def save_spelling(folder):
    """Write a folder with a T5 of ours and a `spelling_tokenizer`; return the folder."""
    tokenizer = spelling_tokenizer()
    shape = {"vocab_size": tokenizer.vocab_size + 11, "eos_token_id": tokenizer.sep_id}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = T5(T5Config(**SHAPE | shape))
    folder.mkdir()
    save_t5(model, folder, tokenizer)
    return folder

"""Removal of tokens from a model and its tokenizer."""

import copy
from collections.abc import Collection
from dataclasses import replace

import torch
from torch import nn

from bertsmith.errors import CheckpointError
from bertsmith.model.bert import BertModel
from bertsmith.model.heads import MaskedLMHead
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.trimming import trim_tokenizer


def trim_vocabulary(
    model: BertModel, tokenizer: Tokenizer, ids: Collection[int]
) -> tuple[BertModel, Tokenizer]:
    """Return copies of model and tokenizer with only the tokens `ids`.

    Tokens keep their order. Embedding rows beyond the tokenizer's vocabulary are removed.

    Raises:
        ConfigError: as `trim_tokenizer`.
        CheckpointError: the tokenizer has more tokens than the model.
    """
    smaller = trim_tokenizer(tokenizer, ids)
    if tokenizer.vocab_size > model.config.vocab_size:
        raise CheckpointError(
            f"the tokenizer has {tokenizer.vocab_size:,} tokens, the embedding "
            f"{model.config.vocab_size:,}. Use the tokenizer that the model was trained with."
        )
    kept = torch.tensor(sorted(ids), dtype=torch.int64)
    trimmed = copy.deepcopy(model)
    padding = model.config.pad_token_id if model.config.pad_token_id in ids else tokenizer.pad_id
    pad = int(torch.searchsorted(kept, padding))
    ids_now = model.config.token_ids(pad, smaller.cls_id, smaller.sep_id)
    trimmed.config = replace(model.config, vocab_size=len(kept), **ids_now)
    trimmed.embeddings.word = nn.Embedding.from_pretrained(  # type: ignore[no-untyped-call]
        model.embeddings.word.weight.detach()[kept],
        freeze=False,
        padding_idx=trimmed.config.pad_token_id,
    )
    move_positions(trimmed, model.config.first_position - trimmed.config.first_position)
    for head in trimmed.heads.values():
        if isinstance(head, MaskedLMHead):
            head.bias = nn.Parameter(head.bias.detach()[kept])
    return trimmed, smaller


def move_positions(model: BertModel, count: int) -> None:
    """Remove the first `count` position rows.

    RoBERTa's positions begin after `pad_token_id`, which trimming has lowered by `count`.
    """
    if count == 0:
        return
    position = model.embeddings.position
    model.embeddings.position = nn.Embedding.from_pretrained(  # type: ignore[no-untyped-call]
        position.weight.detach()[count:], freeze=False, padding_idx=model.config.pad_token_id
    )
    left = model.config.max_position_embeddings - count
    model.config = replace(model.config, max_position_embeddings=left)

"""Fewer word pieces: a model, its tokenizer and the ids to keep in, both without the others out.

Greedy cutting takes the longest piece at each place, so a word all of whose pieces are kept is cut
as before; `used_pieces` (text/used_pieces.py) says which these are.
"""

import copy
from collections.abc import Collection
from dataclasses import replace

import torch
from torch import nn

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.model.bert import BertModel
from bertsmith.model.heads import MaskedLMHead
from bertsmith.text.wordpiece import Tokenizer


def trim_vocabulary(
    model: BertModel, tokenizer: Tokenizer, ids: Collection[int]
) -> tuple[BertModel, Tokenizer]:
    """Copies of a model and its tokenizer that know only the tokens `ids`, in their old order.

    Rows of the embedding beyond the tokenizer's vocabulary are left out.

    Raises:
        ConfigError: a special or added token is not among `ids`, or an id is not the tokenizer's.
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
    trimmed.config = replace(
        model.config,
        vocab_size=len(kept),
        pad_token_id=int(torch.searchsorted(kept, padding)),
    )
    trimmed.embeddings.word = nn.Embedding.from_pretrained(  # type: ignore[no-untyped-call]
        model.embeddings.word.weight.detach()[kept],
        freeze=False,
        padding_idx=trimmed.config.pad_token_id,
    )
    for head in trimmed.heads.values():
        if isinstance(head, MaskedLMHead):
            head.bias = nn.Parameter(head.bias.detach()[kept])
    return trimmed, smaller


def trim_tokenizer(tokenizer: Tokenizer, ids: Collection[int]) -> Tokenizer:
    """The same tokenizer with the tokens `ids` alone, numbered anew in their order."""
    kept = sorted(ids)
    if len(set(kept)) != len(kept) or not 0 <= kept[0] <= kept[-1] < tokenizer.vocab_size:
        raise ConfigError(
            f"ids: found {len(kept):,} from {kept[0]} to {kept[-1]:,}; allowed are ids 0 to "
            f"{tokenizer.vocab_size - 1:,}, each once."
        )
    pieces = [tokenizer.vocab[id_] for id_ in kept if id_ < tokenizer.num_pieces]
    smaller = Tokenizer(pieces, **tokenizer.settings())
    if smaller.vocab != [tokenizer.vocab[id_] for id_ in kept]:
        lost = sorted({token.content for token in tokenizer.added_tokens} - set(pieces))
        raise ConfigError(f"ids: lack the added token {lost[0]!r}. Keep all added tokens.")
    return smaller

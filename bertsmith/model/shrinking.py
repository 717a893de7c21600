"""Functions that return a smaller model: one with fewer layers or tokens, or a DistilBERT."""

import copy
from collections.abc import Collection, Sequence
from dataclasses import fields, replace

import torch
from torch import nn

from bertsmith.errors import CheckpointError, ConfigError, SettingError, option
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads
from bertsmith.model.families.distilbert import DistilBertConfig
from bertsmith.model.heads import MaskedLMHead
from bertsmith.model.layers import LayerList
from bertsmith.system.torch_modes import drawing_from
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.trimming import trim_tokenizer


def trim_vocabulary(
    model: BertModel, tokenizer: Tokenizer, ids: Collection[int]
) -> tuple[BertModel, Tokenizer]:
    """Return copies of model and tokenizer with only the tokens `ids`.

    Tokens keep their order and get new ids, from 0. Embedding rows beyond the tokenizer's
    vocabulary are removed.

    Raises:
        ConfigError: a special or added token or a byte is not among `ids`, or an id is repeated or
            beyond the tokenizer's vocabulary.
        CheckpointError: the tokenizer has more tokens than the model.
    """
    smaller = trim_tokenizer(tokenizer, ids)
    if tokenizer.vocab_size > model.config.vocab_size:
        raise CheckpointError(
            f"the tokenizer has {tokenizer.vocab_size:,} tokens, the embedding "
            f"{model.config.vocab_size:,}. Use the tokenizer that the model was trained with."
        )
    kept_ids = torch.tensor(sorted(ids), dtype=torch.int64)
    trimmed = copy.deepcopy(model)
    # If the padding token of config.json is not kept, the tokenizer's takes its place.
    has_own_pad = model.config.pad_token_id in ids
    old_pad_id = model.config.pad_token_id if has_own_pad else tokenizer.pad_id
    pad_id = int(torch.searchsorted(kept_ids, old_pad_id))
    special_ids = model.config.special_token_ids(pad_id, smaller.cls_id, smaller.sep_id)
    trimmed.config = replace(model.config, vocab_size=len(kept_ids), **special_ids)
    trimmed.embeddings.word = nn.Embedding.from_pretrained(  # type: ignore[no-untyped-call]
        model.embeddings.word.weight.detach()[kept_ids],
        freeze=False,
        padding_idx=trimmed.config.pad_token_id,
    )
    # In RoBERTa, the position of a text's first token follows from the id of padding.
    num_unread = model.config.first_position - trimmed.config.first_position
    remove_first_positions(trimmed, num_unread)
    for head in trimmed.heads.values():
        if isinstance(head, MaskedLMHead):
            head.bias = nn.Parameter(head.bias.detach()[kept_ids])
    return trimmed, smaller


def remove_first_positions(model: BertModel, count: int) -> None:
    """Remove the first `count` rows of the position embedding.

    RoBERTa's positions begin after `pad_token_id`. If trimming the vocabulary has lowered that id
    by `count`, the position of a text's first token is lower by as much, and so must its row be.
    """
    if count == 0:
        return
    position = model.embeddings.position
    assert position is not None
    model.embeddings.position = nn.Embedding.from_pretrained(  # type: ignore[no-untyped-call]
        position.weight.detach()[count:], freeze=False, padding_idx=model.config.pad_token_id
    )
    num_positions = model.config.max_position_embeddings - count
    model.config = replace(model.config, max_position_embeddings=num_positions)


def truncate_layers(model: BertModel, keep: Sequence[int]) -> BertModel:
    """Return a copy with only the layers `keep`, from 0 and rising.

    Raises:
        ConfigError: `keep` is empty, out of range or not rising, or layers share weights in groups.
    """
    num_layers = model.config.num_hidden_layers
    if not keep or list(keep) != sorted(set(keep)) or not 0 <= keep[0] <= keep[-1] < num_layers:
        raise SettingError(
            "layers",
            ", ".join(map(str, keep)) or "nothing",
            f"a list of numbers 0 to {num_layers - 1}, rising, each once",
        )
    config = model.config.with_layers(keep)
    smaller = copy.deepcopy(model)
    smaller.layers = LayerList(smaller.layers[number] for number in keep)
    smaller.config = config
    return smaller


def to_distilbert(model: BertModel) -> BertModel:
    """Convert a BERT with masked-LM head to DistilBERT.

    The embedding of the first segment is added to every position's, so that a text of one segment
    is read as before. Sanh et al. (2019, section 3) drop this embedding and keep the other weights.

    Raises:
        ConfigError: the model is of another family, or has no masked-LM head.
    """
    config = model.config
    if config.model_type != "bert" or "masked_lm" not in model.heads:
        raise ConfigError(
            f"{option('family', 'distilbert')}: found the family {config.model_type} with the "
            f"output heads {', '.join(model.heads) or 'none'}; allowed is a BERT with a masked-LM "
            f"head. Pass {option('family', 'teacher')}."
        )
    shared = {
        field.name: getattr(config, field.name)
        for field in fields(BertConfig)
        if field.name not in ("type_vocab_size", "pooling", "layer_norm_eps")
    }
    student_config = DistilBertConfig(**shared)
    with drawing_from(0):  # all weights are replaced
        student = BertModel(student_config, build_heads(student_config, ["masked_lm"]))
    weights = model.state_dict()
    segment = weights["embeddings.token_type.weight"][0]
    weights["embeddings.position.weight"] = weights["embeddings.position.weight"] + segment
    student.load_state_dict({name: weights[name] for name in student.state_dict()})
    return student

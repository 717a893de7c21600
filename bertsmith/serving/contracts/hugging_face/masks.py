"""Mask filling."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from bertsmith.serving.call import Call
from bertsmith.serving.client_text import clip_text
from bertsmith.serving.contracts.hugging_face.body import HubOptions, TopK, convert
from bertsmith.serving.contracts.texts import check_texts
from bertsmith.serving.messages import ModelInfo
from bertsmith.serving.problems import empty, invalid
from bertsmith.tasks.mask_prediction import spell_masks
from bertsmith.tokenization.tokenizer import Tokenizer


class FillParameters(Struct, forbid_unknown_fields=True, frozen=True):
    """Parameters of mask filling."""

    top_k: TopK = None
    targets: list[str] | str | None = None


class FillBody(Struct, forbid_unknown_fields=True):
    """Body of mask filling."""

    inputs: str | list[str]
    parameters: FillParameters = FillParameters()
    options: HubOptions | None = None


async def filled(call: Call, model: ModelInfo, content: Mapping[str, Any]) -> Any:
    """Return the likeliest tokens of each mask; with several masks, a list for each."""
    body: FillBody = convert(content, FillBody)
    tokenizer = call.service.tokenizer(model.name)
    if body.parameters.targets == []:
        raise empty("parameters.targets: found none. Send at least one word, or leave it out.")
    texts = [spell_masks(text, tokenizer.mask_token) for text in check_texts(body.inputs)]
    targets = body.parameters.targets
    target_ids = None if targets is None else _target_ids(tokenizer, targets)
    top = body.parameters.top_k or 5
    max_top_k = tokenizer.vocab_size - len(tokenizer.special_ids)
    answers = await call.compute(
        model,
        "predict",
        [{"text": text} for text in texts],
        options={"top": max_top_k if target_ids is not None else min(top, max_top_k)},
    )
    rows = []
    for text, masks in zip(texts, answers.raw, strict=True):
        of_masks = [
            [
                {
                    "score": float(score),
                    "token": int(id_),
                    "token_str": tokenizer.decode([int(id_)]),
                    "sequence": _fill(tokenizer, text, number, int(id_)),
                }
                for id_, score in words
                if target_ids is None or int(id_) in target_ids
            ][:top]
            for number, words in enumerate(masks)
        ]
        rows.append(of_masks[0] if len(of_masks) == 1 else of_masks)
    return rows[0] if isinstance(body.inputs, str) else rows


def _target_ids(tokenizer: Tokenizer, targets: list[str] | str) -> set[int]:
    """Return the ids of target words.

    Raises:
        Problem: 422 if a word is not one token.
    """
    ids = set()
    for word in [targets] if isinstance(targets, str) else targets:
        where = f"parameters.targets: '{clip_text(word)}'"
        id_ = tokenizer.token_to_id(word)
        if id_ is None:
            parts = tokenizer.encode_ids(word)
            if len(parts) != 1:
                raise invalid(
                    f"{where} is {len(parts)} tokens of this model, and a mask "
                    "stands for one. Choose a word that the vocabulary has."
                )
            id_ = parts[0]
        if id_ in tokenizer.special_ids:
            raise invalid(
                f"{where} is {tokenizer.id_to_token(id_)} to this model, a special "
                "token, which is never proposed. Choose a word that the vocabulary has."
            )
        ids.add(id_)
    return ids


def _fill(tokenizer: Tokenizer, text: str, number: int, id_: int) -> str:
    """Return the text with a token in place of mask `number`, as the tokenizer spells it.

    With several masks the special tokens stay, among them the other masks, as in transformers.
    """
    ids = np.array(tokenizer.encode(text).ids)
    masks = np.flatnonzero(ids == tokenizer.mask_id)
    ids[masks[number]] = id_
    return str(tokenizer.decode(ids.tolist(), skip_special_tokens=len(masks) == 1))

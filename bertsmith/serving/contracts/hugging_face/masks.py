"""Mask filling, in the form of transformers' pipeline.

The process that computes gives token ids and probabilities; their words are found here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bertsmith.serving.call import Call
from bertsmith.serving.client_text import clip_text
from bertsmith.serving.contracts.hugging_face.body import HubOptions, TopK
from bertsmith.serving.contracts.texts import check_texts
from bertsmith.serving.json_body import convert
from bertsmith.serving.messages import ModelInfo
from bertsmith.serving.problems import empty, invalid
from bertsmith.serving.text_field import TextField
from bertsmith.serving.worker_thread import run_in_worker_thread
from bertsmith.tasks.mask_prediction import normalize_masks
from bertsmith.tokenization.tokenizer import Tokenizer

MAX_CANDIDATES = 4_000
"""Largest number of candidate tokens in a response, so that a short request cannot ask for the
whole vocabulary at each of many masks."""
MAX_RESPONSE_CHARACTERS = 20_000_000
"""Largest number of characters in a response. Each candidate comes with the whole filled text, so a
response to long texts would be far longer than the request."""
DEFAULT_TOP_K = 5
"""Number of candidates for each mask, as in transformers."""


class FillParameters(Struct, forbid_unknown_fields=True, frozen=True):
    """Parameters of mask filling."""

    top_k: TopK = None
    targets: list[str] | str | None = None


class FillBody(Struct, forbid_unknown_fields=True):
    """Body of mask filling."""

    inputs: str | list[str]
    parameters: FillParameters = FillParameters()
    options: HubOptions | None = None


async def fill_masks(call: Call, model: ModelInfo, content: Mapping[str, Any]) -> Any:
    """Return the likeliest tokens of each mask; with several masks, a list for each."""
    body = convert(content, FillBody)
    tokenizer = call.service.tokenizer(model.name)
    # A mask may be written in another case, such as [mask].
    texts = [normalize_masks(text, tokenizer.mask_token) for text in check_texts(body.inputs)]
    top = min(
        body.parameters.top_k or DEFAULT_TOP_K, tokenizer.vocab_size - len(tokenizer.special_ids)
    )
    options: dict[str, Any] = {}
    if body.parameters.targets is not None:
        ids = await run_in_worker_thread(_target_ids, tokenizer, body.parameters.targets)
        top = min(top, len(ids))
        options["target_ids"] = ids
    _check_response_size(texts, tokenizer.mask_token, top)
    answers = await call.compute(
        model,
        "predict",
        [{"text": text} for text in texts],
        options={"top": top, **options},
        field=TextField.of("inputs", body.inputs),
    )
    rows = await run_in_worker_thread(_decode_all, tokenizer, texts, answers.raw, model.max_length)
    return rows[0] if isinstance(body.inputs, str) else rows


def _check_response_size(texts: Sequence[str], mask: str, top: int) -> None:
    """Check that the response has not too many candidates or characters.

    Raises:
        Problem: 422 if it would have more.
    """
    counts = [text.count(mask) for text in texts]
    if sum(counts) * top > MAX_CANDIDATES:
        raise invalid(
            f"parameters.top_k: found {top:,} tokens for each of {sum(counts):,} masks, and this "
            f"server gives at most {MAX_CANDIDATES:,} in one request. Ask for fewer, or divide the "
            "request."
        )
    num_characters = sum(count * top * len(text) for count, text in zip(counts, texts, strict=True))
    if num_characters > MAX_RESPONSE_CHARACTERS:
        raise invalid(
            f"inputs: the answer would have {num_characters:,} characters, since each token comes "
            f"with its text, and this server writes at most {MAX_RESPONSE_CHARACTERS:,}. Shorten "
            "the texts, or ask for fewer tokens."
        )


def _target_ids(tokenizer: Tokenizer, targets: list[str] | str) -> tuple[int, ...]:
    """Return the ids of target words, each once.

    Raises:
        Problem: 400 if there is no word, or 422 if there are too many or one is not one token.
    """
    words = [targets] if isinstance(targets, str) else targets
    if not words:
        raise empty("parameters.targets: found none. Send at least one word, or leave it out.")
    if len(words) > MAX_CANDIDATES:
        raise invalid(
            f"parameters.targets: found {len(words):,} words, and this server takes at most "
            f"{MAX_CANDIDATES:,} in one request. Divide it."
        )
    return tuple(sorted({_target_id(tokenizer, word) for word in words}))


def _target_id(tokenizer: Tokenizer, word: str) -> int:
    """Return the id of a word: of the token with its name, or of the one token of its text."""
    where = f"parameters.targets: '{clip_text(word)}'"
    id_ = tokenizer.token_to_id(word)
    if id_ is None:
        parts = tokenizer.encode_ids(word)
        if len(parts) != 1:
            raise invalid(
                f"{where} is {len(parts)} tokens of this model, and a mask stands for one. Choose "
                "a word that the vocabulary has."
            )
        id_ = parts[0]
    if id_ in tokenizer.special_ids:
        raise invalid(
            f"{where} is {tokenizer.id_to_token(id_)} to this model, a special token, which cannot "
            "fill a mask. Choose a word that the vocabulary has."
        )
    return id_


def _decode_all(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    outputs: Sequence[NDArray[np.float32]],
    max_length: int,
) -> list[Any]:
    """Return the tokens for the mask of each text; of a text with several masks, a list for each.

    Args:
        outputs: for each text, ids of tokens and their probabilities, `[masks, top, 2]`.
        max_length: number of tokens that the model reads of a text.
    """
    rows = []
    for text, candidates in zip(texts, outputs, strict=True):
        ids = tokenizer.encode(text, max_length=max_length).ids
        masks = _decode_candidates(tokenizer, ids, candidates)
        rows.append(masks[0] if len(masks) == 1 else masks)
    return rows


def _decode_candidates(
    tokenizer: Tokenizer, ids: Sequence[int], candidates: NDArray[np.float32]
) -> list[list[dict[str, Any]]]:
    """Return the tokens for each mask of a text, each with the text in which it fills the mask.

    If there are several masks, the texts keep their special tokens, among them the other masks, as
    in transformers.

    Args:
        ids: token ids of the text, as far as the model reads it.
        candidates: ids of tokens and their probabilities, `[masks, top, 2]`.
    """
    positions = [position for position, id_ in enumerate(ids) if id_ == tokenizer.mask_id]
    is_only_mask = len(candidates) == 1
    rows = []
    for position, of_mask in zip(positions, candidates.tolist(), strict=True):
        filled_ids = list(ids)
        row = []
        for id_number, score in of_mask:
            token_id = int(id_number)
            filled_ids[position] = token_id
            row.append(
                {
                    "score": score,
                    "token": token_id,
                    "token_str": tokenizer.decode([token_id]),
                    "sequence": tokenizer.decode(filled_ids, skip_special_tokens=is_only_mask),
                }
            )
        rows.append(row)
    return rows

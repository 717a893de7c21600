"""/tokenize and /decode: texts to tokens and back."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from msgspec import Struct
from starlette.responses import Response

from bertsmith.serving.call import Call, answer_json
from bertsmith.serving.contracts.texts import check_texts
from bertsmith.serving.problems import empty, invalid
from bertsmith.serving.service import with_prompt
from bertsmith.tokenization.tokenizer import Tokenizer


class TokenizeBody(Struct, forbid_unknown_fields=True):
    """Body of /tokenize."""

    inputs: str | list[str]
    add_special_tokens: bool = True
    prompt_name: str | None = None


class DecodeBody(Struct, forbid_unknown_fields=True):
    """Body of /decode."""

    ids: list[int | list[int]]
    skip_special_tokens: bool = True


async def tokenize(call: Call) -> Response:
    """Answer with the tokens of each text."""
    model = call.model
    body = await call.body(TokenizeBody)
    texts = with_prompt(model, check_texts(body.inputs), body.prompt_name)
    tokenizer = call.service.tokenizer(model.name)
    tokens = await call.run_on_texts(
        _tokens_of_all, texts, tokenizer, body.add_special_tokens, field="inputs"
    )
    return answer_json(tokens)


async def decode(call: Call) -> Response:
    """Answer with the text of each list of token ids; one list of numbers is one text."""
    model = call.model
    body = await call.body(DecodeBody)
    if not body.ids:
        raise empty("ids: found none. Send at least one.")
    lists: list[Any] = [ids for ids in body.ids if isinstance(ids, list)]
    if lists and len(lists) < len(body.ids):
        raise invalid("ids: found numbers beside lists. Send a list of ids for each text.")
    tokenizer = call.service.tokenizer(model.name)
    texts = await call.run_on_texts(
        _texts_of_all, lists or [body.ids], tokenizer, body.skip_special_tokens, field="ids"
    )
    return answer_json(texts)


def _tokens_of_all(
    texts: Sequence[str], tokenizer: Tokenizer, add_special_tokens: bool
) -> list[list[dict[str, Any]]]:
    """Return a list of tokens for each text; their offsets count characters of the text."""
    rows = []
    for text in texts:
        encoding = tokenizer.encode(text)
        tokens = zip(
            encoding.ids,
            encoding.tokens,
            encoding.special_tokens_mask,
            encoding.offsets,
            strict=True,
        )
        rows.append(
            [
                {
                    "id": id_,
                    "text": token if special else text[start:end],
                    "special": bool(special),
                    "start": None if special else start,
                    "stop": None if special else end,
                }
                for id_, token, special, (start, end) in tokens
                if add_special_tokens or not special
            ]
        )
    return rows


def _texts_of_all(
    rows: Sequence[Sequence[int]], tokenizer: Tokenizer, skip_special_tokens: bool
) -> list[str]:
    """Decode each list of ids to its text.

    Raises:
        Problem: 422 if the model has no such id.
    """
    for id_ in chain.from_iterable(rows):
        if not 0 <= id_ < tokenizer.vocab_size:
            raise invalid(
                f"ids: found {id_}; this model has the token ids 0 to {tokenizer.vocab_size - 1:,}."
            )
    return [tokenizer.decode(row, skip_special_tokens) for row in rows]

"""Texts of requests: one or several, checked."""

from typing import Annotated, Any

from msgspec import Meta

from bertsmith.data.json_rows import json_type
from bertsmith.serving.problems import empty, invalid

Input = str | Annotated[list[Any], Meta(extra_json_schema={"items": {"type": "string"}})]
"""A text or a list of texts. Token ids are accepted here, so that the error can give a reason."""


def check_texts(inputs: Input, field: str = "inputs") -> list[str]:
    """Return one or several texts as a list.

    Raises:
        Problem: 400 without a text, or 422 for token ids in place of texts.
    """
    texts = [inputs] if isinstance(inputs, str) else inputs
    if not texts:
        raise empty(f"{field}: found no text. Send at least one.")
    checked = []
    for index, text in enumerate(texts):
        where = field if isinstance(inputs, str) else f"{field}[{index}]"
        if not isinstance(text, str | int | list) or isinstance(text, bool):
            raise invalid(f"{where}: found {json_type(text)}. Send a string.")
        if not isinstance(text, str):
            raise invalid(
                f"{field}: found token ids. They may be those of another tokenizer, which would "
                "give wrong results, so send the texts themselves. The class OpenAIEmbeddings of "
                "LangChain sends texts with check_embedding_ctx_length=False."
            )
        if not text:
            raise empty(f"{where}: the text is empty.")
        checked.append(text)
    return checked

"""Texts of requests: one or several, checked."""

from bertsmith.serving.problems import empty, invalid

Input = str | list[str | int | list[int]]
"""A text or a list of texts. Lists of token ids are read to be refused with a reason."""


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
        if not isinstance(text, str):
            raise invalid(
                f"{field}: found token ids. They may be those of another tokenizer, which would "
                "give wrong results, so send the texts themselves. The class OpenAIEmbeddings of "
                "LangChain sends texts with check_embedding_ctx_length=False."
            )
        where = field if isinstance(inputs, str) else f"{field}[{index}]"
        if not text:
            raise empty(f"{where}: the text is empty.")
        check_unicode(text, where)
        checked.append(text)
    return checked


def check_unicode(text: str, where: str) -> None:
    """Refuse half a character.

    Raises:
        Problem: 422 if the text has one half of a surrogate pair.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise invalid(
            f"{where}: the text has one half of a surrogate pair (such as \\ud83d), which is no "
            "character."
        ) from None

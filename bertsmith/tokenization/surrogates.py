"""Lone surrogates, which UTF-8 cannot encode: they have no tokens, but offsets count them."""

import re

from bertsmith.tokenization.tokenizer import TextTokens

SURROGATES = re.compile("[\ud800-\udfff]")


def without_surrogates(text: str) -> str:
    """Remove lone surrogates, which UTF-8 cannot encode."""
    return text if text.isascii() else SURROGATES.sub("", text)


def restore_offsets(result: TextTokens, text: str, clean: str) -> TextTokens:
    """Convert offsets in `clean` to offsets in `text`, which also has lone surrogates.

    The offsets of `result` are changed in place.
    """
    if 0 < len(clean) < len(text):  # an empty text has no tokens
        origins = [index for index, char in enumerate(text) if not SURROGATES.match(char)]
        origins.append(origins[-1] + 1)  # for the end of `clean`
        result.offsets = [
            (origins[start], origins[start] if start == end else origins[end - 1] + 1)
            for start, end in result.offsets
        ]
    return result

"""Texts of clients, shortened for messages."""

MAX_ECHOED = 60
"""Largest number of characters of a client's text in a message."""


def clip_text(text: str) -> str:
    """Return a text for a message; of a long text only the beginning.

    >>> clip_text("normalise")
    'normalise'
    """
    return text if len(text) <= MAX_ECHOED else text[: MAX_ECHOED - 1] + "…"

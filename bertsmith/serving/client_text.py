"""Texts of clients within messages."""

MOST_ECHOED = 60


def clip_text(text: str) -> str:
    """Return a text for a message: its beginning, if it is long.

    >>> clip_text("normalise")
    'normalise'
    """
    return text if len(text) <= MOST_ECHOED else text[: MOST_ECHOED - 1] + "…"

"""Parse JSON that may be damaged, and show values of it in messages.

Whatever is wrong with the JSON, the error is a ValueError.

A damaged or foreign file of a few kilobytes may have lists or objects that are nested too deep. For
these Python raises RecursionError, which is no ValueError.
"""

import json
from typing import Any

TOO_DEEP = "lists or objects too deep"
"""Description of JSON that is nested too deep; Python's own is about its recursion, not the file.
"""

SHOWN_CHARACTERS = 60
"""Largest number of characters of a value that a message shows."""


def parse_json(text: str | bytes, **hooks: Any) -> Any:
    """Parse JSON; `hooks` are arguments of `json.loads`, such as `object_hook`.

    Raises:
        ValueError: the text is not JSON, or nested too deep; its text says why.
    """
    try:
        return json.loads(text, **hooks)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def shown_json(value: Any) -> str:
    """Return a value as JSON for a message, cut to a readable length.

    >>> shown_json({"label": "体育"})
    '{"label": "体育"}'
    """
    return json.dumps(value, ensure_ascii=False)[:SHOWN_CHARACTERS]

"""Parse JSON that may be damaged; whatever is wrong with it, the error is a ValueError.

A damaged or foreign file of a few kilobytes may have lists or objects that are nested too deep. For
these Python raises RecursionError, which is no ValueError.
"""

import json
from typing import Any

TOO_DEEP = "lists or objects too deep"
"""Description of JSON that is nested too deep; Python's own is about its recursion, not the file.
"""


def parse_json(text: str | bytes, **hooks: Any) -> Any:
    """Parse JSON; `hooks` are arguments of `json.loads`, such as `object_hook`.

    Raises:
        ValueError: the text is not JSON, or nested too deep; its text says why.
    """
    try:
        return json.loads(text, **hooks)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None

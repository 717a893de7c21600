"""Count the HTML tags that are left in texts, for a remark on the corpus."""

import re

_HTML_TAG = re.compile(
    r"</?(?:a|b|br|div|em|h[1-6]|hr|i|img|li|ol|p|script|span|strong|style|table|td|th|tr|ul)"
    r"(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)


def count_html_tags(text: str) -> int:
    """Count the HTML tags that are left in a text, by their names.

    Any text that looks like a tag counts as one, such as the comparison `a<b>c` below.

    >>> count_html_tags("A film.<br /><br>See <a href='x'>here</a>; 1 < 2 > 0, a<b>c.")
    5
    """
    return len(_HTML_TAG.findall(text)) if "<" in text else 0

"""Split running text into sentences, by rules for European languages and Chinese."""

import re
import unicodedata

_LINE_END = r"\n\r\v\f\x85\u2028\u2029"
_STOP = ".!?。！？；…｡"
_CLOSING = r"\"'”’»」』）》】〉〕)\]}"
_OPENING = r"\"'“‘«「『（《【〈〔(\[{"
_SPACE = rf"[^\S{_LINE_END}]"
# Lower-case letters of Latin, Greek and Cyrillic; from U+1E00 on they have rarer accents.
_LOWER = "".join(
    char
    for char in map(chr, [*range(0x0530), *range(0x1E00, 0x2000)])
    if unicodedata.category(char) == "Ll"
)
_CHINESE = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_TAG = r"br\s*+/?>"  # <br />, the line break that web text is full of

# Words before a full stop that does not end a sentence: those of `_NEVER` wherever they stand, of
# `_NOT_BEFORE_NUMBER` if a number follows, of `_SELDOM` unless the next word often opens a
# sentence.
_NEVER = re.compile(
    "mr|mrs|ms|mx|dr|prof|rev|hon|gen|col|maj|capt|cmdr|lt|sgt|cpl|pvt|adm|gov|sen|rep|pres|supt|"
    "fr|mme|mlle|mt|vs|v|cf|e\\.g|eg|i\\.e|ie|viz|al|ca|c|resp|incl|esp"
)
_NOT_BEFORE_NUMBER = re.compile(
    "nos?|vols?|pp?|pg|figs?|chap|ch|sect?|art|eqs?|tab|ver|op|approx|"
    "jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
)
_SELDOM = re.compile(
    "inc|ltd|co|corp|llc|bros|jr|sr|esq|dept|univ|assn|ave|blvd|rd|st|bldg|etc|est|eds?|trans|"
    "b|d|r|fl|oz|lb|ft"
)
_INITIALS = re.compile(r"[^\W\d_a-z]|(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}")
_OPENING_WORD = re.compile(
    rf"[{_OPENING}]*(?:A|According|After|All|Also|Although|An|And|As|At|Because|Before|Both|But|By|"
    "Despite|During|Each|For|From|He|Her|His|How|However|I|If|In|It|Its|Later|Many|Most|My|No|On|"
    "One|Our|She|Since|So|Some|That|The|Their|Then|There|These|They|This|Those|To|Under|Until|We|"
    r"What|When|Where|While|Who|Why|With|You)\b(?![.-])"
)

# The search scans for one set of characters; look-behinds then tell which of them was found. A run
# of stops is tried from its first one only, and repeats are possessive, so the time is linear in
# the text, whatever it holds.
_END = re.compile(
    rf"""
    [{_LINE_END}{_STOP}<]
    (?:
        # a line end
        (?<=[{_LINE_END}])
        # one or more tags of line breaks
      | (?<=<) (?i:{_TAG}) (?i:\s*+<{_TAG})*+
        # one or more stops
      | (?<![{_STOP}].) [{_STOP}]*+
        (?:
            # Chinese ones, unless a comma follows
            (?<=[。！？；｡]) [{_CLOSING}]*+ (?![，、：,])
            # ! ? … before Chinese text
          | (?<=[!?…]) [{_CLOSING}]*+ (?![，、：；。]) (?=[{_CHINESE}“‘])
            # any, with quotes and footnotes [1], before white space, then no lower case
          | (?:[{_CLOSING}]|\[\d{{1,3}}\])*+
            {_SPACE}++ (?![{_OPENING}]{{0,3}}[{_LOWER}]) (?![,;:.)])
        )
    )
    """,
    re.VERBOSE,
)


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences, without white space at their ends.

    A line end is always the end of a sentence. A full stop does not end one before a lower-case
    word, after the number of a list item, or after an abbreviation such as `Dr.`; after other
    abbreviations (`Inc.`) and initials only if the next word is one that often opens a sentence.

    >>> split_sentences('Dr. Wu paid 3.50 in the U.S. She left. "Why?" he asked.')
    ['Dr. Wu paid 3.50 in the U.S.', 'She left.', '"Why?" he asked.']
    >>> split_sentences("他说：“你好！”然后走了。为什么？")
    ['他说：“你好！”', '然后走了。', '为什么？']
    """
    sentences = []
    start = 0
    for match in _END.finditer(text):
        stop, end = match.span()
        if text[stop] == "." and not _ends_sentence(text, start, stop, end):
            continue
        if sentence := text[start:end].strip():
            sentences.append(sentence)
        start = end
    if sentence := text[start:].strip():
        sentences.append(sentence)
    return sentences


def _ends_sentence(text: str, start: int, dot: int, end: int) -> bool:
    """Return whether the full stop at `dot` ends the sentence from `start` on.

    The next word is at `end`.
    """
    before = text[dot - 5 : dot] if dot >= 5 else ""  # fewer letters decide nothing below
    number_follows = text[end : end + 1].isdigit()
    if before.isalpha() and before.islower() and before != "trans" and not number_follows:
        # This decides most full stops: of `_NEVER` and `_SELDOM`, only `trans` has five letters.
        return True
    if text[dot + 1] in _STOP:  # further stops, as in "..."
        return True
    # All abbreviations are shorter than 20 characters.
    word = text[max(start, dot - 20) : dot].rpartition(" ")[2].lstrip(_OPENING)
    if word.isdigit() and len(word) <= 3 and dot - len(word) == start:
        return False  # the number of a heading or list item
    # A single letter in upper case is an initial, not an abbreviation such as `p.` or `v.`.
    lower = word if len(word) == 1 else word.lower()
    if _NEVER.fullmatch(lower) or (number_follows and _NOT_BEFORE_NUMBER.fullmatch(lower)):
        return False
    if _SELDOM.fullmatch(lower) or _INITIALS.fullmatch(word):
        return _OPENING_WORD.match(text, end) is not None
    return True

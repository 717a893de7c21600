"""Numbers as messages and pages write them: with nouns in the singular or plural, and percents."""


def count_noun(count: int, one: str, several: str | None = None) -> str:
    """Format a count with its noun; by default the plural ends in s.

    >>> count_noun(1, "text"), count_noun(2000, "text"), count_noun(0, "entity", "entities")
    ('1 text', '2,000 texts', '0 entities')
    """
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def counted(count: int, one: str, several: str) -> list[str]:
    """Format a count with its singular or plural text; an empty list of none.

    >>> counted(1, "is", "are"), counted(2000, "is", "are"), counted(0, "is", "are")
    (['1 is'], ['2,000 are'], [])
    """
    return [count_noun(count, one, several)] if count else []


def percent(share: float, decimals: int = 1) -> str:
    """Format a share in percent.

    >>> percent(0.0274), percent(1, decimals=0)
    ('2.7 %', '100 %')
    """
    return f"{100 * share:.{decimals}f} %"

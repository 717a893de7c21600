"""Numbers in messages and pages: with a noun in singular or plural, in percent, as decimals."""

import math


def count_noun(count: int, one: str, several: str | None = None) -> str:
    """Format a count with its noun; by default the plural ends in s.

    >>> count_noun(1, "text"), count_noun(2000, "text"), count_noun(0, "entity", "entities")
    ('1 text', '2,000 texts', '0 entities')
    """
    noun = one if count == 1 else several or f"{one}s"
    return f"{count:,} {noun}"


def line_with_count(count: int, one: str, several: str) -> list[str]:
    """Return a list of one line that begins with a count, or an empty list if the count is 0.

    >>> line_with_count(2000, "is", "are"), line_with_count(0, "is", "are")
    (['2,000 are'], [])
    """
    return [count_noun(count, one, several)] if count else []


def percent(share: float, decimals: int = 1) -> str:
    """Format a share in percent.

    >>> percent(0.0274), percent(1, decimals=0)
    ('2.7 %', '100 %')
    """
    return f"{100 * share:.{decimals}f} %"


def format_number(value: float) -> str:
    """Format a number of any size, with at least four significant digits.

    From 0.1 to below 1,000 it has four decimals. A larger number has fewer decimals, and a smaller
    one has more. A number below 1e-8, or of more than 16 digits, is written with an exponent.

    >>> format_number(3.14159265), format_number(0.0000314159), format_number(253421.873)
    ('3.1416', '0.00003142', '253421.9')
    >>> format_number(0.0), format_number(-2.5e-20), format_number(float("nan"))
    ('0.0000', '-2.500e-20', 'nan')
    """
    if not value or not math.isfinite(value):
        return f"{value:.4f}"
    exponent = math.floor(math.log10(abs(value)))
    if not -8 <= exponent <= 15:
        return f"{value:.3e}"
    decimals = max(4, 3 - exponent)
    # float32 has seven digits, so a number with seven digits before the point gets no decimals.
    decimals = max(0, min(decimals, 6 - exponent))
    return f"{value:.{decimals}f}"

"""The words of a command line that may be options."""

from collections.abc import Sequence


def option_words(args: Sequence[str]) -> Sequence[str]:
    """Return the words before `--`; no word after it is an option.

    >>> option_words(["DIR", "--json", "--", "--help"])
    ['DIR', '--json']
    """
    return args[: args.index("--")] if "--" in args else args

"""The words of a command line that may be options: those before `--`."""

from collections.abc import Sequence


def option_words(args: Sequence[str]) -> Sequence[str]:
    """Return the words before `--`; no word after it is an option.

    >>> option_words(["DIR", "--json", "--", "--help"])
    ['DIR', '--json']
    """
    return args[: args.index("--")] if "--" in args else args


def with_resume(args: Sequence[str]) -> list[str]:
    """Return a command line with --resume as its last option, and without --overwrite.

    >>> with_resume(["--overwrite", "--out", "DIR", "--", "--resume"])
    ['--out', 'DIR', '--resume', '--', '--resume']
    """
    options = option_words(args)
    kept = [word for word in options if word not in ("--resume", "--overwrite")]
    return [*kept, "--resume", *args[len(options) :]]

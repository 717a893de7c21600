"""Mistakes in a command line, described in one line that says what to do.

tyro has refused the line already; here we say why in our own words.
"""

import difflib
import re
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise

from bertsmith.commands.help import Option
from bertsmith.commands.option_words import option_words
from bertsmith.config import shipped_recipes

UNCHECKED = {"TEXT": "a text", "TEXTS": "texts", "PATH": "a path", "NAME": "a name"}
"""Placeholders of values that only the command itself checks, and their names in messages."""
NUMBERS = {"INT": (int, "a whole number"), "NUMBER": (float, "a number")}
"""Placeholders of numbers, each with its type and its name in messages."""


def find_mistake(args: Sequence[str], options: Sequence[Option], prog: str) -> str | None:
    """Describe the first mistake in a command line that tyro refused; None if none is found.

    Flags are checked first, one after the other: one that does not exist, or has a wrong value or
    none. Then the words that are left are checked, and whether all needed options are given.

    Args:
        args: the words after the name of the command.
        options: the options that the command has.
        prog: the name of the command, such as "bertsmith pretrain".
    """
    flags = {option.name: option for option in options if not option.is_positional}
    rest = deque(option_words(args))
    later_words = args[len(rest) + 1 :]  # those behind `--`, which are no options
    given_flags = set()
    words = []
    while rest:
        word = rest.popleft()
        if not _is_flag(word):
            words.append(word)
            continue
        flag, equals, value = word.partition("=")
        flag = flag.replace("_", "-")
        if flag not in flags:
            near = difflib.get_close_matches(flag, flags, n=1)
            hint = f"Did you mean {near[0]}? " if near else ""
            return f"There is no option {flag}. {hint}'{prog} --help-all' lists them."
        given_flags.add(flag)
        placeholder = flags[flag].values
        if equals and not placeholder:
            return f"{flag} takes no value, and '{value}' is given. Write {flag} alone."
        values = [value] if equals else []
        while placeholder and not equals and rest and not _is_flag(rest[0]):
            if values and not flags[flag].takes_several:
                break
            values.append(rest.popleft())
        wrong = next((f"'{value}'" for value in values if not _fits(value, placeholder)), None)
        if wrong or (placeholder and not values):
            return f"{flag}: found {wrong or 'no value'}; allowed is {_allowed(placeholder)}."
    return _find_word_mistake([*words, *later_words], given_flags, options, prog)


def find_empty_path(words: Sequence[str], options: Iterable[Option]) -> str | None:
    """Describe a flag whose path is empty; None if there is none.

    An empty path would be the current folder, and mostly comes from an unset variable of the shell.
    """
    empty = [flag for flag, value in pairwise(words) if not value]
    empty += [word.removesuffix("=") for word in words if word.endswith("=")]
    if not empty:  # as nearly always, so that `options` are not listed
        return None
    flags = {flag.replace("_", "-") for flag in empty}
    for option in options:
        if option.name in flags and option.values.startswith("PATH"):
            return f"{option.name} is empty. Is the shell variable set?"
    return None


def find_repetition(words: Sequence[str], options: Iterable[Option]) -> str | None:
    """Describe a flag of several values that is given more than once; None if there is none.

    tyro would keep only the values behind the flag's last occurrence.
    """
    flags = [word.partition("=")[0].replace("_", "-") for word in words if _is_flag(word)]
    if len(set(flags)) == len(flags):  # as nearly always, so that `options` are not listed
        return None
    for option in options:
        if option.takes_several and flags.count(option.name) > 1:
            return (
                f"{option.name} is given more than once, and only the values behind the last one "
                f"would count. Put all values behind one {option.name}."
            )
    return None


def _find_word_mistake(
    words: Sequence[str], given_flags: set[str], options: Sequence[Option], prog: str
) -> str | None:
    """Describe a word too many, or the needed options that are missing; None if all is right.

    Args:
        words: the words of the line that are neither flags nor values of flags.
    """
    positionals = [option for option in options if option.is_positional]
    takes_recipe = any(option.name == "--recipe" for option in options)
    for word in words:
        name = word.removesuffix(".toml").rpartition("/")[2]
        if takes_recipe and (name in shipped_recipes() or word.endswith(".toml")):
            return f"'{word}' is not an option. Did you mean --recipe {word}?"
    missing = [option for option in positionals[len(words) :] if option.is_required]
    missing += [option for option in options if _is_missing(option, given_flags)]
    missing_names = [option.typed.removesuffix(" ...") for option in missing]  # of several values
    if len(missing_names) > 1:
        needed, them = f"{', '.join(missing_names[:-1])} and {missing_names[-1]}", "them"
    else:
        needed, them = "".join(missing_names), "it"
    takes_any_number = any(option.takes_several for option in positionals)
    if len(words) > len(positionals) and not takes_any_number:
        problem = f"'{words[len(positionals)]}' is one word too many for '{prog}'"
        if missing:
            return f"{problem}, which needs {needed}. '{prog} --help' explains {them}."
        return (
            f"{problem}. Put a text of several words in quotes. '{prog} --help' lists the options."
        )
    if not missing:
        return None
    return f"{prog} needs {needed}. '{prog} --help' explains {them}."


def _is_missing(option: Option, given_flags: set[str]) -> bool:
    """Return whether an option is needed, and the line has neither it nor a replacement."""
    # The help of such an option says what replaces it: "(required without --folds)".
    replaced_by = re.findall(r"--[a-z-]+", option.help.partition("(required")[2])
    suffices = {option.name, *replaced_by}
    return option.is_required and not option.is_positional and not suffices & given_flags


def _is_flag(word: str) -> bool:
    return bool(re.match("--?[A-Za-z]", word))  # not a negative number


def _fits(value: str, placeholder: str) -> bool:
    """Return whether an option with a placeholder, such as "INT|auto", takes a value."""
    alternatives = placeholder.removesuffix(" ...").split("|")
    if value == "None" or UNCHECKED.keys() & alternatives or value in alternatives:
        return True
    for number_placeholder in NUMBERS.keys() & alternatives:
        number_type, _ = NUMBERS[number_placeholder]
        with suppress(ValueError):
            number_type(value)
            return True
    return False


def _allowed(placeholder: str) -> str:
    """Describe the values that a placeholder stands for: "a whole number or auto"."""
    descriptions = {**UNCHECKED, **{name: text for name, (_, text) in NUMBERS.items()}}
    alternatives = placeholder.removesuffix(" ...").split("|")
    *first, last = [descriptions.get(each, each) for each in alternatives]
    return f"{', '.join(first)} or {last}" if first else last

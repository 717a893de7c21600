"""Options in messages: `--max-length 64` on the command line, `max_length=64` in Python.

The same message may be shown on the command line, in Python or as JSON. So a message names an
option by `option("max_length", 64)`, which puts invisible marks around it. The code that shows the
message spells the option: as a flag, as a Python argument, or as a field of JSON.

A command with --json prints reports with messages that are still marked. What it prints is spelled
by its stream (`CommandStream` in system/escaping.py), so as_flags also reads marks within JSON.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

BEGIN, VALUE, END = "\ue0f0", "\ue0f1", "\ue0f2"
"""Private-use characters of Unicode around an option in a message: BEGIN name END, or
BEGIN name VALUE type value END."""
# Patterns of each mark: the character itself, or its escape in JSON, such as \ue0f0.
_BEGIN, _VALUE, _END = (rf"(?:{mark}|\\u{ord(mark):x})" for mark in (BEGIN, VALUE, END))
MARKED = re.compile(
    rf"{_BEGIN}(?P<path>[\w.]+)(?:{_VALUE}(?P<kind>[a-z]+) (?P<value>.*?))?{_END}", re.DOTALL
)
"""Pattern of an option in a message, even one that was encoded as JSON."""


class Placeholder(str):
    """A word that stands for a value of the user's, such as FILE."""

    __slots__ = ()


VALUE_KINDS: dict[str, Callable[[str], Any]] = {
    "bool": lambda text: text == "True",
    "int": int,
    "float": float,
    "str": str,
    "placeholder": Placeholder,
    "dict": lambda text: dict([_read_pair(text)]),
}
"""For each type that a marked value may have, the function that reads it from its text."""

Spelling = Callable[["NamedOption"], str]
"""A function that spells an option, with its value if there is one, such as `flag_of`."""


@dataclass(frozen=True)
class NamedOption:
    """An option that a message names, and perhaps a value for it."""

    path: str
    """Name of the option as in Python, and in a recipe with its table: `training.batch_size`."""
    value: Any = None
    """A value that the message suggests, or a `Placeholder` for one, or None."""

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


def option(path: str, value: Any = None, *, placeholder: str = "") -> str:
    """Name an option in a message, for `as_flags`, `as_arguments` and `as_fields` to spell.

    Args:
        path: the option's name as in Python, such as "max_length"; with its table of a recipe if
            that matters, as in "training.batch_size".
        value: a value to show with the option; a dict of one name and a whole number, such as
            `{"spam": 3}`, is spelled `spam=3` as a flag.
        placeholder: a word for a value that only the user knows, such as FILE, in place of `value`.

    >>> as_flags(f"Raise {option('max_length')}, or give {option('from', 'runs/a')}.")
    'Raise --max-length, or give --from runs/a.'
    """
    if placeholder:
        return f"{BEGIN}{path}{VALUE}placeholder {placeholder}{END}"
    if value is None:
        return f"{BEGIN}{path}{END}"
    if isinstance(value, dict):
        return f"{BEGIN}{path}{VALUE}dict {_pair_text(value)}{END}"
    plain = _plain(value)
    return f"{BEGIN}{path}{VALUE}{type(plain).__name__} {plain}{END}"


def escape_marks(text: str) -> str:
    """Return JSON whose marks around options are escapes, as `as_flags` finds them in JSON."""
    for mark in (BEGIN, VALUE, END):
        text = text.replace(mark, f"\\u{ord(mark):x}")
    return text


def as_flags(message: str, spell: Spelling | None = None) -> str:
    """Spell the options of a message as on the command line.

    Args:
        spell: a function that spells one option, for a command with flags of its own.

    >>> as_flags(f"Pass {option('resume', True)}, or leave out {option('eval_rows')}.")
    'Pass --resume, or leave out --eval-rows.'
    """
    return _spelled(message, spell or flag_of)


def as_arguments(message: str) -> str:
    """Spell the options of a message as arguments of a Python call.

    >>> as_arguments(f"Pass {option('max_length', 64)}, or give {option('from', 'runs/a')}.")
    "Pass max_length=64, or give from_='runs/a'."
    """
    return _spelled(message, _argument_of)


def as_fields(message: str) -> str:
    """Spell the options of a message as fields of a JSON object.

    >>> as_fields(f"Pass {option('max_length', 64)}, or leave out {option('from')}.")
    'Pass "max_length": 64, or leave out "from".'
    """
    return _spelled(message, _field_of)


def options_in(message: str) -> Iterator[NamedOption]:
    """Yield the options that a message names, in order."""
    for marked in MARKED.finditer(message):
        if (named := _read(marked)) is not None:
            yield named


def flag_of(named: NamedOption) -> str:
    """Spell an option as a flag, with its value if there is one."""
    flag = f"--{named.name.removesuffix('_').replace('_', '-')}"
    if named.value is None or named.value is True:
        return flag
    if named.value is False:
        return f"--no-{flag[2:]}"
    text = _pair_text(named.value) if isinstance(named.value, dict) else str(named.value)
    quoted = shlex.quote(text)
    if quoted == text and not any(char.isalnum() for char in text):
        quoted = f"'{text}'"  # such as a comma, which would look like punctuation
    return f"{flag} {quoted}"


def _pair_text(value: dict[str, int]) -> str:
    ((name, number),) = value.items()
    return f"{name}={number}"


def _read_pair(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition("=")
    return name, int(number)


def _plain(value: Any) -> Any:
    """Convert numpy numbers to Python's, and anything else to text."""
    if hasattr(value, "item"):
        value = value.item()
    return value if isinstance(value, bool | int | float) else str(value)


def _read(marked: re.Match[str]) -> NamedOption | None:
    """Read a marked option; None if the marks are part of a text of the user's."""
    if marked["kind"] is None:
        return NamedOption(marked["path"])
    try:
        text = json.loads(f'"{marked["value"]}"') if _is_in_json(marked) else marked["value"]
        return NamedOption(marked["path"], VALUE_KINDS[marked["kind"]](text))
    except (KeyError, ValueError):
        return None


def _is_in_json(marked: re.Match[str]) -> bool:
    """Return whether a marked option stands in a string of JSON, where its marks are escapes.

    JSON that was written with ensure_ascii=False has the marks themselves, as plain text does. An
    option in it is spelled as in plain text.
    """
    return marked[0].startswith("\\")


def _argument_of(named: NamedOption) -> str:
    name = "from_" if named.name == "from" else named.name
    if named.value is None:
        return name
    if isinstance(named.value, Placeholder):
        return f"{name}={named.value}"
    return f"{name}={named.value!r}"


def _field_of(named: NamedOption) -> str:
    name = json.dumps(named.name.removesuffix("_"))
    # Letters stay as they are: the program that shows the message may not read it as JSON.
    return name if named.value is None else f"{name}: {json.dumps(named.value, ensure_ascii=False)}"


def _spelled(message: str, spell: Spelling) -> str:
    def replacement(marked: re.Match[str]) -> str:
        named = _read(marked)
        if named is None:
            return marked[0]
        spelled = spell(named)
        if not _is_in_json(marked):
            return spelled
        # As in the rest of this JSON: letters such as Chinese ones are escaped if it is ASCII.
        return json.dumps(spelled, ensure_ascii=message.isascii())[1:-1]

    return MARKED.sub(replacement, message)

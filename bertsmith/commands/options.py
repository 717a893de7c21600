"""Options of a command as help shows them, from the fields of its settings."""

import dataclasses
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro
from docstring_parser import parse_from_object

from bertsmith.commands.help import Option
from bertsmith.config import spelling, with_added_names
from bertsmith.system.compute import ADVANCED

# tyro's marks: the metadata of a type such as `tyro.conf.Positional[int]`.
POSITIONAL = tyro.conf.Positional[int].__metadata__[0]  # type: ignore[attr-defined]
SUPPRESSED = tyro.conf.Suppress[int].__metadata__[0]  # type: ignore[attr-defined]
PLACEHOLDERS = {int: "INT", float: "NUMBER", str: "TEXT", Path: "PATH"}
"""Placeholders of values in help, by the type of the values."""
UNIONS = (Union, types.UnionType)
MAIN_PANEL = "options"
REQUIRED = "(required)"
"""Hint of an option that is always needed, though its settings have a default."""


def options_of(cls: Any, default: Any, panel: str = MAIN_PANEL) -> Iterator[Option]:
    """Yield the options of a settings class; each nested class has its own panel.

    Args:
        default: settings with the default values, such as those of a recipe; or tyro's sentinel for
            those of the class.
        panel: title of the group in which help lists the options.
    """
    # `with_added_names` allows names that modules of the user have added, such as of families.
    hints = with_added_names(cls, get_type_hints(cls, include_extras=True))
    helps = help_texts(cls)
    for field in dataclasses.fields(cls):
        value_type, marks = _unwrapped(hints[field.name])
        value = default_of(field, default)
        if SUPPRESSED in marks:
            continue
        if dataclasses.is_dataclass(value_type) and isinstance(value_type, type):
            yield from options_of(value_type, value, field.name)
            continue
        mark_texts = _texts_of(marks)
        name = mark_texts.get("name", spelling(field.name)).replace("_", "-")
        is_missing = value in (tyro.MISSING, tyro.MISSING_NONPROP)
        text = mark_texts.get("help") or helps.get(field.name, "")
        default_text = ""
        if not (is_missing or isinstance(value, bool)):
            default_text = _format_default(value)
        hint = mark_texts.get("help_behavior_hint", "")
        if hint:
            # Help lists it among the needed options, where "(required)" would say nothing new.
            text = text if hint == REQUIRED else f"{text} {hint}"
            default_text = ""
        metavar = mark_texts.get("metavar")
        if POSITIONAL in marks:
            typed = metavar or name.upper()
            values = "..." if get_origin(value_type) is tuple else ""
        elif value_type is bool:
            typed = f"--no-{name}" if value is True else f"--{name}"
            values = ""
        else:
            typed = f"--{name}"
            values = metavar or _placeholder(value_type)
        yield Option(
            typed,
            values,
            text,
            panel,
            default_text,
            is_required=is_missing or hint.startswith("(required"),
            is_advanced=ADVANCED in marks,
            takes_several=get_origin(value_type) is tuple,
        )


def default_of(field: "dataclasses.Field[Any]", settings: Any) -> Any:
    """Return a field's value in `settings`, or its declared default if they are a sentinel."""
    if dataclasses.is_dataclass(settings):
        return getattr(settings, field.name)
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return tyro.MISSING_NONPROP if field.default is dataclasses.MISSING else field.default


@cache
def help_texts(cls: type[Any]) -> dict[str, str]:
    """Return the docstring of each field; that of a subclass replaces that of its base class."""
    classes = [base for base in reversed(cls.__mro__) if base is not object]
    documented = [doc for base in classes for doc in parse_from_object(base).params]
    return {doc.arg_name: " ".join((doc.description or "").split()) for doc in documented}


def _texts_of(marks: tuple[Any, ...]) -> dict[str, str]:
    """Return the texts that the marks `tyro.conf.arg(…)` of a field set, by argument."""
    return {
        argument: text
        for mark in marks
        for argument in ("name", "metavar", "help", "help_behavior_hint")
        if isinstance(text := getattr(mark, argument, None), str) and text
    }


def _unwrapped(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type hint without its marks and without None, and the marks."""
    marks: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *metadata = get_args(hint)
        marks = tuple(metadata)
    if get_origin(hint) in UNIONS:
        members = [member for member in get_args(hint) if member is not type(None)]
        return (members[0] if len(members) == 1 else hint), marks
    return hint, marks


def _placeholder(value_type: Any) -> str:
    """Return the placeholder of a type: `INT`, `PATH ...` for a tuple, `tiny|mini` for names."""
    arguments = get_args(value_type)
    if get_origin(value_type) is tuple:
        return f"{_placeholder(arguments[0])} ..."
    if get_origin(value_type) in UNIONS:
        return "|".join(map(_placeholder, arguments))
    if get_origin(value_type) is Literal:
        return "|".join(map(str, arguments))
    return PLACEHOLDERS.get(value_type, "TEXT")


def _format_default(value: Any) -> str:
    """Format a default; empty if there is none."""
    if value is None or value in ((), "", Path()):
        return ""
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)

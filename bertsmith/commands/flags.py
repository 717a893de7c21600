"""Parse command lines into settings, with or without a recipe.

Settings are a dataclass whose fields are the flags. A recipe is a .toml file with values for them.
tyro reads the words; help and messages on mistakes are our own.
"""

import contextlib
import dataclasses
import inspect
import io
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

import tyro
from tyro.constructors import (
    ConstructorRegistry,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from bertsmith.commands.help import HELP_FLAGS, HelpRequested, Option, Page
from bertsmith.commands.mistakes import find_empty_path, find_mistake, find_repetition
from bertsmith.commands.option_words import option_words
from bertsmith.commands.options import MAIN_PANEL, default_of, options_of
from bertsmith.config import (
    check_needs,
    from_mapping,
    read_recipe,
    shipped_recipes,
    spelling,
    with_added_names,
)
from bertsmith.errors import ConfigError

T = TypeVar("T")
RULES = ConstructorRegistry()
"""Our rules for tyro, which reads the words of a command line; `_settings_rule` is the only one."""
NEEDED_OPTIONS = {"finetune": " (with --teacher and --unlabelled)"}
"""Options that recipes of a kind need in addition; the help of --recipe names them."""


def parse_settings(
    cls: type[T],
    args: Sequence[str],
    prog: str,
    description: str | None = None,
    default: Any = tyro.MISSING_NONPROP,
    more_options: Sequence[Option] = (),
) -> T:
    """Parse a command line as `cls`, whose docstring is its help.

    Args:
        args: the words after the name of the command.
        prog: the name of the command, such as "bertsmith pretrain", for messages.
        description: help of the command in place of the docstring.
        default: an instance whose values replace the defaults of the fields, as of a recipe; by
            default tyro's mark that there is none.
        more_options: options that help shows before those of the fields.

    Raises:
        HelpRequested: the arguments ask for help.
        ConfigError: an option is missing or unknown, or its value is not allowed.
    """
    description = description or inspect.getdoc(cls)
    words = option_words(args)
    if HELP_FLAGS & set(words):
        page = Page(description or "", (*more_options, *options_of(cls, default)))
        raise HelpRequested(page, words)
    for find in (find_empty_path, find_repetition):  # which tyro would accept
        if mistake := find(words, options_of(cls, default)):
            raise ConfigError(mistake)
    # A switch has one flag, not a pair --x and --no-x; flags of nested settings have no prefix.
    config = (tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes)
    tyro_message = io.StringIO()
    try:
        with contextlib.redirect_stderr(tyro_message):
            settings = tyro.cli(
                cls, args=args, prog=prog, default=default, config=config, registry=RULES
            )
            return cast(T, settings)
    except _RefusedError as refused:
        raise refused.error from None
    except SystemExit as stop:  # tyro refused the line
        options = (*more_options, *options_of(cls, default))
        if stop.code and (mistake := find_mistake(args, options, prog)):
            tyro_message = io.StringIO()  # our message takes the place of tyro's
            raise ConfigError(mistake) from None
        raise
    finally:
        sys.stderr.write(tyro_message.getvalue())


class _RefusedError(Exception):
    """Carries a ConfigError through tyro, which would reword a ValueError."""

    def __init__(self, error: ConfigError) -> None:
        super().__init__(error)
        self.error = error


def _build(cls: type[T], **values: Any) -> T:
    """Build settings for tyro; a check that refuses the values raises `_RefusedError`."""
    try:
        return cls(**values)
    except ConfigError as error:
        raise _RefusedError(error) from None


@RULES.struct_rule
def _settings_rule(info: StructTypeInfo) -> StructConstructorSpec | None:
    """Tell tyro the fields of settings without their help texts, which `help.py` shows."""
    if not dataclasses.is_dataclass(info.type):
        return None
    # `with_added_names` allows names that modules of the user have added, such as of families.
    hints = with_added_names(info.type, get_type_hints(info.type, include_extras=True))
    fields = [
        StructFieldSpec(field.name, hints[field.name], default_of(field, info.default))
        for field in dataclasses.fields(info.type)
    ]
    return StructConstructorSpec(partial(_build, info.type), tuple(fields))


def parse_with_recipe(
    cls: type[T],
    args: Sequence[str],
    prog: str,
    description: str | None = None,
    kind: str = "*",
) -> T:
    """Parse a command line that may name a recipe by `--recipe`, a path or a name.

    The recipe replaces the defaults of `cls`, and flags replace the recipe.
    Fields without a default stay required unless the recipe gives them. A recipe may also name
    options that the user must give ("needs"), such as a teacher's folder.

    Args:
        args, prog, description: as in `parse_settings`.
        kind: folder of `recipes/` whose recipes the line may name, and the help lists; "*" for all.
    """
    default: Any = tyro.MISSING_NONPROP
    needs: Any = []
    name, args = take_recipe(args)
    if name is not None:
        required = {
            field.name: tyro.MISSING
            for field in dataclasses.fields(cls)  # type: ignore[arg-type]
            if field.default is field.default_factory is dataclasses.MISSING
        }
        recipe_values = read_recipe(Path(name), kinds=(kind,))
        needs = recipe_values.pop("needs", [])
        default = from_mapping(cls, recipe_values, name, cls(**required))
    option = Option("--recipe", "NAME", _recipe_help(kind), MAIN_PANEL)
    settings = parse_settings(cls, args, prog, description, default, [option])
    if name is not None:
        check_needs(needs, settings, name)
    return settings


def _recipe_help(kind: str) -> str:
    """Return the help of --recipe, with the names of the recipes of a kind."""
    names = ", ".join(shipped_recipes(kind))
    recipe = f"a .toml file, or {names}" if names else "a .toml file"
    text = (
        f"Recipe: {recipe}{NEEDED_OPTIONS.get(kind, '')}. It sets options, and those on the line "
        "replace its values."
    )
    return f"{text} 'bertsmith recipes' explains each." if names else text


def take_recipe(args: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the recipe that a command line names, and the other arguments.

    Raises:
        ConfigError: --recipe is given twice, or without a name.
    """
    names = []
    rest = list(args)
    # From the last word on, so that the indices of earlier words stay right as words are removed.
    for index in reversed(range(len(option_words(args)))):
        flag, equals, name = rest[index].partition("=")
        if flag != "--recipe":
            continue
        if not equals:
            name = rest.pop(index + 1) if index + 1 < len(rest) else ""
        rest.pop(index)
        names.append(name)
    if "" in names:
        raise ConfigError("--recipe needs a name. 'bertsmith recipes' lists them.")
    if len(names) > 1:
        raise ConfigError("Give --recipe once; a command takes one recipe.")
    return (names[0] if names else None), rest


def unset_other(args: Sequence[str], one: str, other: str) -> list[str]:
    """Unset the recipe's value of one of two flags, if the command line has only the other one.

    `args` are the words of the line. The value None on it stands for a setting that is not given.

    >>> unset_other(["--steps", "9"], "minutes", "steps")
    ['--steps', '9', '--minutes', 'None']
    """
    words = option_words(args)
    flags = {word.split("=")[0] for word in words}
    has_one, has_other = f"--{one}" in flags, f"--{other}" in flags
    if has_one == has_other:
        return [*args]
    return [*words, f"--{other if has_one else one}", "None", *args[len(words) :]]


def changed_flags(settings: Any) -> list[str]:
    """Return the words of a command line for the settings that differ from their defaults."""
    words: list[str] = []
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        flag = spelling(field.name).replace("_", "-")  # `spelling` makes "from" of `from_`
        if value == default_of(field, None):
            continue
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, tuple):
            words += [f"--{flag}", *map(str, value)]
        else:
            words += [f"--{flag}", str(value)]
    return words

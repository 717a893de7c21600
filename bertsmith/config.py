"""Settings from TOML recipes and command-line flags, as frozen dataclasses.

Each component keeps its settings in a frozen dataclass beside its code. A recipe is the same tree
in TOML, read strictly: an unknown key, a wrong type or an impossible value is an error that names
the file, the key and the fix. Precedence, weakest first: default, recipe, command line.
"""

import codecs
import dataclasses
import difflib
import json
import re
import tomllib
import types
import typing
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import Any, TypeVar

from bertsmith.errors import ConfigError, SettingError, option

T = TypeVar("T")

MAX_RECIPE_BYTES = 2**20
MAX_KEY_PARTS = 100
KEY_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
"""Pattern of a part of a TOML key: bare, or in quotes."""
DEEP_VALUE = re.compile(rf"(?:[\[{{]\s*+(?:{KEY_PART}\s*+=\s*+)?+){{30}}")
"""Pattern of the beginning of a value in which 30 lists or tables are nested."""
LONG_KEY = re.compile(rf"(?<![\w-]){KEY_PART}(?:[ \t]*+\.[ \t]*+{KEY_PART}){{{MAX_KEY_PARTS},}}")
"""Pattern of a key of more than `MAX_KEY_PARTS` parts with dots between."""

PYDANTIC_TYPES = {
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid string": "a text",
    "a valid boolean": "true or false",
    "a valid array": "a list",
    "a valid dictionary": "a table",
    "an object": "a table",
}
"""Pydantic's names for types of values in its messages, and the names that ours use."""

RECIPES = Path(__file__).parent / "recipes"
"""The folder of the package's own recipes, with a folder for each kind, such as "pretrain"."""

NAMES_CODE = "names code"
"""Metadata key of a field whose value may name code to run. The entry is a function that says
whether a value does; a recipe must not have such a value, because it may come from anywhere."""
OTHER_FORMS = "other forms"
"""Metadata key of a field whose value may be written in several forms. The entry is a function that
converts each form to the type of the field, or raises SettingError."""

ADDED_NAMES = "added names"
"""Metadata key of a field whose type is a `Literal` of the names in a table, such as those of the
families. The entry is a function that returns the names that modules of the user have added."""


def with_added_names(cls: type[Any], hints: Mapping[str, Any]) -> dict[str, Any]:
    """Add the names of `ADDED_NAMES` to the type hints of a dataclass.

    Args:
        hints: the type hint of each field, as `typing.get_type_hints` returns them.
    """
    all_hints = dict(hints)
    for field in dataclasses.fields(cls):
        list_names = field.metadata.get(ADDED_NAMES)
        if list_names is not None and (names := list_names()):
            all_hints[field.name] = _with_names(hints[field.name], names)
    return all_hints


def _with_names(hint: Any, names: Sequence[str]) -> Any:
    """Add names to a `Literal`, or to the one in a union or within `Annotated`."""
    if typing.get_origin(hint) is typing.Annotated:
        inner, *metadata = typing.get_args(hint)
        return typing.Annotated[(_with_names(inner, names), *metadata)]
    if typing.get_origin(hint) is typing.Literal:
        return typing.Literal[(*typing.get_args(hint), *names)]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return reduce(or_, (_with_names(member, names) for member in typing.get_args(hint)))
    return hint


def shipped_recipes(*kinds: str) -> dict[str, Path]:
    """Find the package's recipes of kinds such as "pretrain", by name; without kinds all."""
    paths = [path for kind in kinds or ("*",) for path in sorted(RECIPES.glob(f"{kind}/*.toml"))]
    return {path.stem: path for path in paths}


def recipe_summary(path: Path) -> str:
    """Return the first line of a recipe of the package: a comment that gives its purpose."""
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def find_recipe(recipe: Path, folder: Path = Path(), kinds: Sequence[str] = ()) -> Path:
    """Find the file of a recipe: a path within `folder`, or a recipe of the package by its name.

    The package's recipes have names such as "quarter-hour" or "pretrain/quarter-hour.toml".

    Args:
        kinds: the kinds of recipes that the command takes, such as "pretrain"; by default all.

    Raises:
        ConfigError: there is no such file and no such recipe.
    """
    if (file := folder / recipe).exists() and not file.is_dir():
        return file
    recipes = shipped_recipes(*kinds)
    if (path := _recipe_named(recipe, recipes)) is not None:
        return path
    names = ", ".join(recipes)
    or_by_name = f", or one of bertsmith's recipes by its name: {names}" if names else ""
    choice = f"Give the path of a .toml file{or_by_name}."
    if _recipe_named(recipe, shipped_recipes()) is not None:
        raise ConfigError(
            f"{recipe} is a recipe of another command. {choice} 'bertsmith recipes' shows which "
            "command takes which."
        )
    if file.is_dir():
        raise ConfigError(f"{file}: a folder, not a recipe. Name a .toml file in it.")
    near = difflib.get_close_matches(recipe.stem, recipes, n=1)
    hint = f"Did you mean '{near[0]}'? " if near else ""
    missing = "no such file" if recipe.suffix == ".toml" else "no such recipe"
    raise ConfigError(f"{file}: {missing}. {hint}{choice}")


def _recipe_named(recipe: Path, recipes: Mapping[str, Path]) -> Path | None:
    """Return the recipe named "quarter-hour" or "pretrain/quarter-hour.toml"; None without one."""
    name = recipe.as_posix().removesuffix(".toml")
    for stem, path in recipes.items():
        if name in (stem, f"{path.parent.name}/{stem}"):
            return path
    return None


def read_recipe(path: Path, folder: Path = Path(), kinds: Sequence[str] = ()) -> dict[str, Any]:
    """Read a recipe, by path or name, into plain tables.

    Raises:
        ConfigError: the file is missing or is not TOML (with line and column).
    """
    with find_recipe(path, folder, kinds).open("rb") as file:
        content = file.read(MAX_RECIPE_BYTES + 1)
    if len(content) > MAX_RECIPE_BYTES:
        raise ConfigError(
            f"{path}: longer than {MAX_RECIPE_BYTES:,} bytes; a recipe is a short TOML file. Name "
            "one."
        )
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ConfigError(
            f"{path}: UTF-16 text, but TOML is UTF-8. Save the file as UTF-8 "
            "(iconv -f UTF-16 -t UTF-8 OLD > NEW)."
        )
    try:
        text = content.decode("utf-8-sig")  # Windows' editors begin a file with a mark
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: byte {error.start} is not UTF-8. A recipe is a UTF-8 text file in TOML."
        ) from None
    # The parser's memory grows with the square of the number of parts of a key.
    if key := LONG_KEY.search(text):
        line = text.count("\n", 0, key.start()) + 1
        raise ConfigError(
            f"{path}: line {line} has a key of more than {MAX_KEY_PARTS} parts, "
            f"{key[0][:40]}…; keys of a recipe have two or three. Correct that line."
        )
    try:
        return tomllib.loads(text)
    except RecursionError:
        deep = DEEP_VALUE.search(text)
        where = f"line {text.count(chr(10), 0, deep.start()) + 1}: " if deep else ""
        raise ConfigError(
            f"{path}: {where}lists or tables are nested too deeply. A value of a recipe is a "
            "number, a text, true or false, or a list of them. Give one."
        ) from None
    except ValueError as error:  # not TOML, or a number or date that Python cannot hold
        raise ConfigError(f"{path}: not valid TOML: {error}. {_toml_advice(text, error)}") from None


def _toml_advice(text: str, error: ValueError) -> str:
    """Advise how to correct a file that TOML's parser refuses; name an invisible character."""
    if re.search(r"declare .* twice|overwrite a value", str(error)):
        return "That key or table is already set above. Keep one of the two."
    number = re.search(r"at line (\d+)", str(error))
    if number is None:
        is_end = "end of document" in str(error)
        return "Correct the end of the file." if is_end else "Correct the file."
    for character in text.split("\n")[int(number[1]) - 1]:
        if unicodedata.category(character) in ("Cf", "Zs") and character != " ":
            name = unicodedata.name(character, "without a name")
            return (
                f"That line has an invisible character, U+{ord(character):04X} ({name}). Remove it."
            )
    return "Correct that line."


def from_mapping(
    cls: type[T],
    values: Mapping[str, Any],
    source: str,
    default: T | None = None,
    root: type[Any] | None = None,
    *,
    may_name_code: bool = False,
) -> T:
    """Build the dataclass `cls` from nested tables, strictly.

    Args:
        cls: a dataclass whose fields are dataclasses or plain annotated values.
        values: the tables; keys are field names in the spelling of `spelling`.
        source: what messages call the source of the tables.
        default: values of the fields that `values` lacks; by default their declared defaults.
        root: the dataclass of the whole recipe, if `cls` is one of its tables. "Did you mean" also
            suggests its other keys.
        may_name_code: whether the values come from the user's own call, not from a file, so that
            they may name code.

    Raises:
        ConfigError: a key is unknown, a required value is missing, a value has a wrong type or
            names code to run, or the dataclass's own check refuses it.
    """
    hints = with_added_names(cls, typing.get_type_hints(cls))
    fields = {spelling(field.name): field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    changes: dict[str, Any] = {}
    for key, value in values.items():
        if key not in fields:
            raise ConfigError(
                _unknown_key(source, key, list(fields), _key_locations(root or cls, cls))
            )
        does_name_code = fields[key].metadata.get(NAMES_CODE)
        if does_name_code is not None and does_name_code(value) and not may_name_code:
            raise ConfigError(
                f"{source}: {key}: found {value!r}, which names code to run. A file must not name "
                f"code, because it may come from anywhere. Leave it out, and pass {option(key)} to "
                "the command instead."
            )
        name = fields[key].name  # the key, perhaps with the `_` that `spelling` drops
        convert_form = fields[key].metadata.get(OTHER_FORMS)
        own_value = value
        if convert_form is not None:
            own_value = _naming_source(source, partial(convert_form, value))
        field_default = getattr(default, name) if default is not None else None
        location = f"{source}: {key}"
        changes[name] = _convert(hints[name], own_value, location, field_default, root or cls)
    if default is not None:
        return _naming_source(source, lambda: dataclasses.replace(default, **changes))  # type: ignore[type-var]
    missing = [
        key
        for key, field in fields.items()
        if field.name not in changes
        and field.default is field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ConfigError(f"{source}: '{missing[0]}' is missing. Add it.")
    return _naming_source(source, lambda: cls(**changes))


def check_needs(needs: object, settings: Any, source: str) -> None:
    """Check that the user has given the options that a recipe needs but cannot know.

    Args:
        needs, settings, source: as for `find_needs`.

    Raises:
        ConfigError: an option is missing.
    """
    if missing := find_needs(needs, settings, source):
        raise ConfigError(
            f"{option('recipe', source)}: found no {option(missing[0])}, which this recipe needs. "
            f"Give {option(missing[0], placeholder='DIR')}, or choose another recipe."
        )


def find_needs(needs: object, settings: Any, source: str) -> list[str]:
    """Return the keys that a recipe needs and for which `settings` has no value.

    Args:
        needs: the recipe's list `needs`: keys above its first table that are None by default.
        settings: the dataclass that was built from the recipe and from the user's options.
        source: the recipe, for messages.

    Raises:
        ConfigError: `needs` is not a list of such keys.
    """
    names = {
        spelling(field.name): field.name
        for field in dataclasses.fields(settings)
        if field.default is None
    }
    if not isinstance(needs, list) or not all(
        isinstance(key, str) and key in names for key in needs
    ):
        raise ConfigError(
            f"{source}: needs: found {needs!r}; allowed is a list of these keys: "
            f"{', '.join(names)}."
        )
    return [key for key in needs if getattr(settings, names[key]) is None]


def spelling(name: str) -> str:
    """Drop the trailing `_` of names that Python reserves.

    >>> spelling("from_"), spelling("corpus")
    ('from', 'corpus')
    """
    return name.removesuffix("_")


def to_jsonable(value: Any) -> Any:
    """Convert nested dataclasses, paths and tuples to plain JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            spelling(field.name): to_jsonable(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_jsonable(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _convert(hint: Any, value: Any, location: str, default: Any, root: type[Any]) -> Any:
    """Convert the value of a recipe to the type of its field, which is `hint`.

    Args:
        location: the recipe and the key, for messages.
        default, root: as for `from_mapping`, if the type is a dataclass.
    """
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{location}: found {value!r}; allowed is a table.")
        return from_mapping(hint, value, location, default, root)
    from pydantic import TypeAdapter, ValidationError

    try:
        # Validated as JSON: strict JSON allows "runs/a" for a Path and a list for a tuple, but
        # refuses "3" for 3 and 0.5 for an int.
        return TypeAdapter(hint).validate_json(json.dumps(value, default=_plain), strict=True)
    except RecursionError:
        raise ConfigError(f"{location}: nested too deeply. Give a plain value.") from None
    except ValidationError as error:
        reason = error.errors()[0]["msg"].replace("Input should be", "allowed is")
        for pydantic_name, name in PYDANTIC_TYPES.items():
            reason = reason.replace(pydantic_name, name)
        raise ConfigError(f"{location}: found {value!r}; {reason}.") from None


def _plain(value: Any) -> Any:
    """Convert numpy's numbers and arrays to Python's, and anything else to text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _unknown_key(source: str, key: str, known_keys: list[str], locations: Mapping[str, str]) -> str:
    """Return the message about an unknown key.

    Args:
        known_keys: the keys of its table.
        locations: the keys of other tables, each with its location in the recipe.
    """
    candidates = {**locations, **{name: repr(name) for name in known_keys}}
    near = difflib.get_close_matches(key, list(candidates), n=1)
    hint = f"Did you mean {candidates[near[0]]}? " if near else ""
    return f"{source}: unknown key '{key}'. {hint}Known keys: {', '.join(known_keys)}."


def _key_locations(root: type[Any], cls: type[Any]) -> dict[str, str]:
    """Describe the location in a recipe of each key that belongs to another table than `cls`."""
    tables = {
        spelling(name): hint
        for name, hint in typing.get_type_hints(root).items()
        if dataclasses.is_dataclass(hint)
    }
    keys = [spelling(field.name) for field in dataclasses.fields(root)]
    above = {key: f"'{key}', above the first [table]" for key in keys if key not in tables}
    in_tables = {
        spelling(field.name): f"'[{table}] {spelling(field.name)}'"
        for table, hint in tables.items()
        for field in dataclasses.fields(hint)
    }
    return in_tables if root is cls else above | in_tables


def _naming_source(source: str, build: Callable[[], T]) -> T:
    """Return `build()`; begin its errors about settings with the source of the values."""
    try:
        return build()
    except SettingError as error:
        raise SettingError(
            error.setting, error.found, error.allowed, error.advice, source
        ) from None
    except ConfigError as error:
        raise ConfigError(
            f"{source}: {error}"
        ) from None  # str(error) spells options without dashes

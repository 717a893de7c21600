"""Command lines as settings, with or without a recipe; results and lines beside them."""

import dataclasses
import inspect
import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_type_hints

import tyro
from docstring_parser import parse_from_object
from tyro.constructors import (
    ConstructorRegistry,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from bertsmith.config import from_mapping, read_recipe

T = TypeVar("T")
HELP = ConstructorRegistry()


def parse(
    cls: type[T],
    args: Sequence[str],
    prog: str,
    description: str | None = None,
    default: Any = tyro.MISSING_NONPROP,
) -> T:
    """Parse a command line as `cls`, whose docstring is its help."""
    description = description or inspect.getdoc(cls)
    config = (tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes)
    return cast(T, tyro.cli(cls, args=args, prog=prog, description=description, default=default,
                            config=config, registry=HELP))  # fmt: skip


@HELP.struct_rule
def _settings_rule(info: StructTypeInfo) -> StructConstructorSpec | None:
    """Show a field's help as one paragraph, which tells what None stands for."""
    if not dataclasses.is_dataclass(info.type):
        return None
    hints, helps = get_type_hints(info.type, include_extras=True), _help_texts(info.type)
    fields = []
    for field in dataclasses.fields(info.type):
        default = _default_of(field, info.default)
        hint: Any = hints[field.name]
        if default is None:
            hint = Annotated[hint, tyro.conf.arg(help_behavior_hint="")]
        fields.append(StructFieldSpec(field.name, hint, default, helps.get(field.name)))
    return StructConstructorSpec(info.type, tuple(fields))


def _default_of(field: "dataclasses.Field[Any]", settings: Any) -> Any:
    """Return a field's value in default settings, else its declared default."""
    if dataclasses.is_dataclass(settings):
        return getattr(settings, field.name)
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return tyro.MISSING_NONPROP if field.default is dataclasses.MISSING else field.default


@cache
def _help_texts(cls: type[Any]) -> dict[str, str]:
    """Collect the docstrings of a dataclass's fields."""
    documented = [doc for base in cls.__mro__[-2::-1] for doc in parse_from_object(base).params]
    return {doc.arg_name: " ".join((doc.description or "").split()) for doc in documented}


def parse_with_recipe(
    cls: type[T], args: Sequence[str], prog: str, description: str | None = None
) -> T:
    """Parse a command line whose first argument may be a recipe.

    The recipe is a path or a name. It replaces the defaults of `cls`, and flags replace the recipe.
    Fields without a default stay required unless the recipe gives them.
    """
    default: Any = tyro.MISSING_NONPROP
    if args and args[0] and not args[0].startswith("-"):
        required = {
            field.name: tyro.MISSING
            for field in dataclasses.fields(cls)  # type: ignore[arg-type]
            if field.default is field.default_factory is dataclasses.MISSING
        }
        recipe = Path(args[0])
        default = from_mapping(cls, read_recipe(recipe), str(recipe), cls(**required))
        args = args[1:]
    return parse(cls, args, prog, description, default)


def print_report(report: Any, as_json: bool) -> None:
    """Print a report as text, or as one JSON object."""
    print(json.dumps(report.to_json()) if as_json else report)


def tell(line: str | None) -> None:
    """Print a line beside the results, on standard error, if there is one."""
    if line:
        print(line, file=sys.stderr, flush=True)

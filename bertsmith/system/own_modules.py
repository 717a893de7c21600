"""Modules of the user that `--import` names; they add families, tasks or losses to our tables."""

import importlib
from collections.abc import Sequence

from bertsmith.errors import BertsmithError, ConfigError, option

_names: list[str] = []
"""Names of the modules that were imported, in their order."""


def import_modules(names: Sequence[str]) -> None:
    """Import modules, and remember their names for the processes that this one starts.

    Raises:
        ConfigError: there is no such module, or it raises an error.
    """
    for name in names:
        if name.endswith(".py") or not all(part.isidentifier() for part in name.split(".")):
            raise ConfigError(
                f"{option('import', name)}: it must be the name of a module, as Python imports it, "
                "such as my_family for a file my_family.py; allowed are letters, digits and _."
            )
        try:
            importlib.import_module(name)
        except BertsmithError:
            raise
        except Exception as error:  # the module is the user's own, and may raise any
            # `name` or a package around it is missing, not a module that `name` itself imports.
            if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
                raise ConfigError(
                    f"{option('import', name)}: {error}. Install the package that has it, or "
                    "correct the name; a module in this folder is found with PYTHONPATH=."
                ) from error
            raise ConfigError(
                f"{option('import', name)}: the module raised {type(error).__name__}: {error}. "
                "Correct it; 'bertsmith COMMAND --debug' shows where."
            ) from error
        if name not in _names:
            _names.append(name)


def imported_modules() -> tuple[str, ...]:
    """Return the names that `import_modules` imported, for another process to import."""
    return tuple(_names)

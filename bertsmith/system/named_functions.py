"""Settings that name a function of another package, as "module:function"."""

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from bertsmith.errors import ConfigError, option


@dataclass(frozen=True)
class FunctionSetting:
    """A setting whose value names a function, such as `--segmenter jieba:lcut`."""

    setting: str
    example: str
    """A value that may be given, for messages."""
    advice: str
    """Sentence for messages that says which functions may be named."""
    lack: str
    """Clause for messages on modules of Python itself, such as "cuts no text into words"."""

    def load(self, name: str) -> Callable[..., Any]:
        """Import the function that `name` names.

        A function of Python itself is never called, since `os:system` would take its argument for a
        command.

        Raises:
            ConfigError: there is no such module or function, it is Python's own, or the module
                raises an error.
        """
        module_name, _, function_name = name.partition(":")
        # A part of a module's name is empty if nothing is named, and in names such as `.jieba`.
        if "" in module_name.split(".") or not function_name:
            raise ConfigError(
                f"{option(self.setting, name)}: it must be module:function, such as "
                f"{self.example}. {self.advice}"
            )
        self._check_is_foreign(name, module_name)
        try:
            module = importlib.import_module(module_name)
        except ImportError as error:
            raise ConfigError(
                f"{option(self.setting, name)}: {error}. Install the package that has it, or "
                "correct the name; a module in this folder is found with PYTHONPATH=."
            ) from error
        except Exception as error:  # a module may raise any error, such as a SyntaxError
            raise ConfigError(
                f"{option(self.setting, name)}: the module raised {type(error).__name__}: {error}. "
                "Correct it, or name a function of another module."
            ) from error
        function = getattr(module, function_name, None)
        if not callable(function):
            problem = "is not a function" if hasattr(module, function_name) else "does not exist"
            raise ConfigError(
                f"{option(self.setting, name)}: {function_name} {problem} in {module_name}. "
                f"{self.advice}"
            )
        self._check_is_foreign(name, _home_of(function))
        return function

    def _check_is_foreign(self, name: str, module: str) -> None:
        if module.partition(".")[0] in {*sys.stdlib_module_names, "builtins"}:
            raise ConfigError(
                f"{option(self.setting, name)}: {module} is a module of Python itself, which "
                f"{self.lack}. Name a function of another package, such as {self.example}."
            )


def _home_of(function: Any) -> str:
    """Name the module that defines a function, even if another module imports it."""
    while isinstance(function, partial):
        function = function.func
    # A method of a C class names no module; its object's class does.
    owner = getattr(function, "__self__", None)
    return str(getattr(function, "__module__", None) or type(owner).__module__)

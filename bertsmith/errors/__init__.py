"""Errors that the user can solve, warnings, and the spelling of options in both."""

from bertsmith.errors.kinds import (
    BertsmithError,
    CheckpointError,
    ConfigError,
    CorpusError,
    ExamplesError,
    InputError,
    Interrupted,
    NotFiniteError,
    NotFittedError,
    SettingError,
    TrainingError,
    WriteError,
)
from bertsmith.errors.notices import BertsmithWarning, issued_warnings, warn_once
from bertsmith.errors.option_names import as_arguments, as_fields, as_flags, option
from bertsmith.errors.system_errors import advice_on, read_error

__all__ = [
    "BertsmithError",
    "BertsmithWarning",
    "CheckpointError",
    "ConfigError",
    "CorpusError",
    "ExamplesError",
    "InputError",
    "Interrupted",
    "NotFiniteError",
    "NotFittedError",
    "SettingError",
    "TrainingError",
    "WriteError",
    "advice_on",
    "as_arguments",
    "as_fields",
    "as_flags",
    "issued_warnings",
    "option",
    "read_error",
    "warn_once",
]

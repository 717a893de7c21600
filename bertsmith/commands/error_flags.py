"""Options in the message of an error, spelled as flags of the command that failed.

Messages hold marks in place of options (`option("batch_size")`). The same error may concern a flag
of a command line, an argument in Python or a field of JSON.
"""

from bertsmith.commands.catalog import help_page
from bertsmith.errors import as_flags
from bertsmith.errors.option_names import NamedOption, flag_of


def as_flags_of(command: str | None, message: str) -> str:
    """Spell the options of an error's message as flags of the command that failed.

    >>> from bertsmith.errors import option
    >>> as_flags_of("pretrain", f"{option('training.batch_size')}: found 0.")
    '--batch-size: found 0.'
    """
    if command is None:
        return as_flags(message)
    options = help_page(command).options
    flags = {option.name for option in options}
    positional_names = {option.name.lower() for option in options if option.is_positional}

    def format_option(named: NamedOption) -> str:
        is_nested = "." in named.path
        has_flag = flag_of(NamedOption(named.name)) in flags
        # Named without dashes: a positional argument, and a setting in a recipe's table for which
        # the command has no flag.
        if named.name in positional_names or (is_nested and not has_flag):
            return named.path
        return flag_of(named)

    return as_flags(message, format_option)

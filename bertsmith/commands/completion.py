"""`bertsmith completion`: the script that completes commands and options in a shell."""

from collections.abc import Iterator, Sequence

from bertsmith.commands.catalog import COMMANDS, help_page
from bertsmith.commands.help import Option
from bertsmith.commands.recipes import recipe_kind
from bertsmith.commands.settings.completion import Settings
from bertsmith.config import shipped_recipes

FREE_VALUES = {"INT", "NUMBER", "TEXT", "PATH", "NAME"}
"""Placeholders in help for values that are not one of a few words."""

# Double braces stand for single ones, since `str.format` fills in the cases. The shell compares the
# words before the one that is being typed with each case.
SCRIPT = """\
[ -n "$ZSH_VERSION" ] && autoload -U +X compinit bashcompinit && compinit && bashcompinit
_bertsmith() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=$((COMP_CWORD - 1)) words
    case "${{COMP_WORDS[*]:1:$before}} " in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _bertsmith bertsmith"""


def main(settings: Settings, line: Sequence[str]) -> None:
    """Print the script. `settings` and `line`, which every command gets, are not needed here."""
    print(SCRIPT.format(cases="\n".join(cases())))


def cases() -> Iterator[str]:
    """Yield the shell's cases: the words that may follow each beginning of a line.

    The shell takes the first case that fits, so the longest beginnings come first.
    """
    options = {name: help_page(name).options for name in COMMANDS}
    next_words: dict[str, list[str]] = {"": []}  # by the beginning of the line
    for name in COMMANDS:
        first, _, second = name.partition(" ")
        if first not in next_words[""]:
            next_words[""].append(first)
        if second:
            next_words.setdefault(f"{first} ", []).append(second)
        flags = [option.name for option in options[name] if not option.is_positional]
        recipes = list(shipped_recipes("compare")) if name == "compare" else []
        next_words[f"{name} "] = [*flags, "--help", *recipes]
    for beginning in sorted(next_words, key=len, reverse=True):
        for option in options.get(beginning.rstrip(), ()):
            values = _values(beginning, option)
            if values is not None:
                yield f'        "{beginning}"*"{option.name} ") words=\'{" ".join(values)}\' ;;'
        pattern = f'"{beginning}"*' if beginning else "*"
        yield f"        {pattern}) words='{' '.join(next_words[beginning])}' ;;"


def _values(command: str, option: Option) -> list[str] | None:
    """List the values of a command's flag that the script completes.

    The list is empty for a path, for which the shell itself completes file names; None for values
    that nothing completes.
    """
    choices = option.values.removesuffix(" ...").split("|")
    if option.name == "--recipe":
        return list(shipped_recipes(recipe_kind(command)))
    if len(choices) > 1 and not FREE_VALUES & set(choices):
        return choices
    return [] if option.values.startswith("PATH") else None

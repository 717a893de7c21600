"""`bertsmith completion`: the script that completes commands and options in a shell."""

from collections.abc import Iterator, Sequence

from bertsmith.commands.help import pages
from bertsmith.commands.recipes import recipe_kind
from bertsmith.commands.settings.completion import Settings
from bertsmith.config import shipped_recipes

FREE_VALUES = {"INT", "NUMBER", "TEXT", "PATH", "NAME"}
"""The name of a value in help, unless the value is one of a few words."""

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
    print(SCRIPT.format(cases="\n".join(cases())))


def cases() -> Iterator[str]:
    """Yield what may follow each beginning of a line, the longest beginnings first."""
    follow: dict[str, list[str]] = {"": []}
    for name, page in pages().items():
        first, _, second = name.partition(" ")
        follow[""] += [] if first in follow[""] else [first]
        if second:
            follow.setdefault(f"{first} ", []).append(second)
        flags = [option.flag.split()[0] for option in page.options if not option.is_positional]
        recipes = list(shipped_recipes("compare")) if name == "compare" else []
        follow[f"{name} "] = [*flags, "--help", *recipes]
    for start in sorted(follow, key=len, reverse=True):
        command = start.rstrip()
        for flag, values in _values(command).items():
            yield f'        "{start}"*"{flag} ") words=\'{" ".join(values)}\' ;;'
        pattern = f'"{start}"*' if start else "*"
        yield f"        {pattern}) words='{' '.join(follow[start])}' ;;"


def _values(command: str) -> dict[str, list[str]]:
    """Map a command's flags to their values; none of a path, for which the shell lists files."""
    values: dict[str, list[str]] = {}
    page = pages().get(command)
    for option in page.options if page else ():
        flag, _, placeholder = option.flag.partition(" ")
        choices = placeholder.removesuffix(" ...").split("|")
        if flag == "--recipe":
            values[flag] = list(shipped_recipes(recipe_kind(command)))
        elif len(choices) > 1 and not FREE_VALUES & set(choices):
            values[flag] = choices
        elif placeholder.startswith("PATH"):
            values[flag] = []
    return values

"""`bertsmith recipes`: list the recipes that come with bertsmith, by command."""

from collections.abc import Iterator, Sequence

from bertsmith.commands.output import print_json
from bertsmith.commands.settings.recipes import Settings
from bertsmith.config import recipe_summary, shipped_recipes
from bertsmith.system.terminal import align_columns

USED_BY = {
    "pretrain": "pretrain --recipe NAME (also plan)",
    "finetune": "finetune TASK --recipe NAME",
    "distill": "distill pretraining --recipe NAME",
    "compare": "compare NAME",
}
"""The command line that uses a recipe, by the kind of recipe: a folder of `recipes/`."""


def main(settings: Settings, line: Sequence[str]) -> None:
    """Print the name and the summary of each recipe.

    `line`, the words of the command line, which every command gets, is not needed here.
    """
    recipes = {
        kind: {name: recipe_summary(path) for name, path in shipped_recipes(kind).items()}
        for kind in USED_BY
    }
    if settings.json:
        print_json(recipes)
    else:
        print("\n".join(_lines(recipes)))


def recipe_kind(command: str) -> str:
    """Return the kind of recipes that a command takes.

    >>> recipe_kind("plan"), recipe_kind("finetune tag")
    ('pretrain', 'finetune')
    """
    first = command.split()[0]
    return "pretrain" if first == "plan" else first


def _lines(recipes: dict[str, dict[str, str]]) -> Iterator[str]:
    """Format the summaries of recipes, by kind and name, line by line."""
    for kind, summaries in recipes.items():
        yield f"bertsmith {USED_BY[kind]}"
        for line in align_columns(list(summaries.items()), str.ljust):
            yield f"  {line}"
        yield ""
    yield (
        "Each is a file with explanations. Use your own by its path: --recipe mine.toml, or "
        "bertsmith compare mine.toml."
    )

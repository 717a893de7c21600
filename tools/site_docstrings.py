"""Docstrings on the site: examples are code, and estimators list their parameters."""

import re
from collections.abc import Iterator
from typing import Any

import griffe

from bertsmith.commands.catalog import help_page
from bertsmith.commands.help import Option
from bertsmith.estimators.estimator import NOT_PARAMETERS

EXAMPLE = re.compile(r"(?:^|(?<=\n\n))>>> .*?(?=\n\n|\Z)", re.DOTALL)
"""A paragraph that begins with a prompt, outside of any section."""
FLAG = re.compile(r"(?<![\w-])--([a-z][a-z-]*)")
TASKS = {
    "TextClassifier": "classify",
    "TextRegressor": "regress",
    "TokenClassifier": "tag",
    "QuestionAnswerer": "answer",
    "MultipleChoice": "choose",
    "SentenceEncoder": "embed",
}
# Flags of `bertsmith finetune` that are no parameters of an estimator.
OF_COMMANDS_ALONE = {"recipe", "resume_from", "json", "page", "quiet", "verbose", "debug", "model"}


class SiteDocstrings(griffe.Extension):
    """Change docstrings before they are parsed as Google's."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = with_sections(obj.docstring.value)
            if obj.is_class and obj.name in TASKS:
                table = "\n".join(parameters_of(TASKS[obj.name]))
                obj.docstring.value = f"{obj.docstring.value.rstrip()}\n\n{table}\n"


def with_sections(text: str) -> str:
    """Put paragraphs that begin with a prompt under `Examples:`.

    >>> with_sections("Add one.\\n\\n>>> add(1)\\n2")
    'Add one.\\n\\nExamples:\\n    >>> add(1)\\n    2'
    """
    return EXAMPLE.sub(lambda match: "Examples:\n    " + match[0].replace("\n", "\n    "), text)


def parameters_of(task: str) -> Iterator[str]:
    """Yield a table of the parameters of a task's estimator, those of `--help` first."""
    parameters = [
        option
        for option in help_page(f"finetune {task}").options
        if option.panel == "options"
        and not option.is_required
        and parameter_name(option) not in {*NOT_PARAMETERS, *OF_COMMANDS_ALONE}
    ]
    yield '??? note "Parameters"'
    yield ""
    yield "    | Parameter | Default | Meaning |"
    yield "    |---|---|---|"
    yield "    | `model` | | Folder of the pre-trained model. |"
    for option in sorted(parameters, key=lambda option: option.is_advanced):
        shown = f"`{option.default}`" if option.default else ""
        meaning = FLAG.sub(lambda flag: flag[1].replace("-", "_"), option.help)
        meaning = meaning.replace("|", "\\|")
        yield f"    | `{parameter_name(option)}` | {shown} | {meaning} |"


def parameter_name(option: Option) -> str:
    """Return the name of the parameter that a flag sets."""
    return option.name.removeprefix("--").removeprefix("no-").replace("-", "_")

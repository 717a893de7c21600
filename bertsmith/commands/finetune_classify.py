"""`bertsmith finetune classify`: labelled texts → a model that sorts texts into your classes."""

import json as json_module
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from bertsmith.commands.request import Request, resume_command, tell_where_it_resumes
from bertsmith.config import parse_with_recipe
from bertsmith.data.examples import Columns
from bertsmith.finetune import ClassifySettings, finetune_classify
from bertsmith.training.display import Display

DESCRIPTION = """Teach a BERT to sort texts into your classes.

Takes a pre-trained model and two files of labelled texts: one to learn from, one to score by. A
label may be any word or number. The result is a folder that `bertsmith evaluate`, `bertsmith
predict` and Hugging Face's transformers open.

A recipe (a .toml file, first) sets any of the options below; options on the line replace it."""


@dataclass(frozen=True)
class Settings(ClassifySettings):
    """The command line of `bertsmith finetune classify`."""

    columns: Annotated[Columns, tyro.conf.arg(name="")] = field(default_factory=Columns)
    json: bool = False
    """Print one JSON object instead of text."""


def parse(args: Sequence[str], prog: str) -> Request[Settings]:
    """Read recipe and flags."""
    settings = parse_with_recipe(Settings, args, prog, DESCRIPTION)
    return Request(settings, resume_command(args, prog))


def main(request: Request[Settings]) -> None:
    """Train, then print the scores."""
    if request.settings.resume:
        tell_where_it_resumes(request.settings.out)
    with Display() as display:
        result = finetune_classify(request.settings, [display], request.resume_command)
    print(f"loaded: {result.load_report}", file=sys.stderr)
    print(json_module.dumps(result.to_json()) if request.settings.json else result)

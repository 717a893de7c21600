"""The list of commands, each with its step from text to model and its modules.

A command has two modules of its name. That in `commands/settings/` parses the command line. It
needs no torch, so that help and messages about mistakes appear at once. That in `commands/` is
imported once the line is parsed, and its `main` does the work.
"""

import importlib
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from bertsmith.commands.help import HelpRequested, Page


class Command(NamedTuple):
    """A command as the list of commands shows it."""

    step: str
    """The heading under which the overview lists it: Text, Model, Task or All."""
    summary: str
    module: str = ""
    """The name of its modules, if it differs from the command's."""
    needs_torch: bool = True
    """Whether the module that does its work imports torch. Without torch, importing it is quick."""


COMMANDS = {
    "tokenizer train": Command(
        "Text", "learn a vocabulary of subword tokens from your texts", needs_torch=False
    ),
    "tokenizer extend": Command(
        "Text", "add the tokens of your own texts to a model's vocabulary", needs_torch=False
    ),
    "corpus build": Command(
        "Text", "turn texts into token ids on disk, ready for pre-training", needs_torch=False
    ),
    "corpus merge": Command(
        "Text", "make one corpus of the shards that several jobs encoded", needs_torch=False
    ),
    "corpus inspect": Command("Text", "show the size and examples of a corpus", needs_torch=False),
    "pretrain": Command(
        "Model", "pre-train a BERT on your texts: a new one, or one that you have (--from)"
    ),
    "fill": Command("Model", "ask a pre-trained BERT which word belongs at [MASK]"),
    "plan": Command("Model", "estimate what a pre-training run takes: time, memory, arithmetic"),
    "params": Command("Model", "count a model's parameters, by component"),
    "distill pretraining": Command(
        "Model", "pre-train a smaller BERT with the help of a larger one"
    ),
    "vectors": Command("Model", "count a vector for each token, in seconds, without pre-training"),
    "pretrain gpt": Command(
        "Model", "train a GPT on the same corpus, which reads from left to right"
    ),
    "pretrain lstm": Command(
        "Model", "train an LSTM on the same corpus, which reads one token after another"
    ),
    "pretrain elmo": Command(
        "Model", "train an ELMo on the same corpus, two language models from the two sides"
    ),
    "pretrain t5": Command(
        "Model", "train a T5 on the same corpus, which writes what is missing in a text"
    ),
    "generate": Command("Model", "let a GPT or LSTM continue a text"),
    **{
        f"finetune {task}": Command("Task", f"fine-tune a BERT to {purpose}", "finetune")
        for task, purpose in {
            "classify": "sort texts into your classes",
            "answer": "find the answers to questions in passages",
            "tag": "label words, such as names or parts of speech",
            "regress": "give texts a score, such as a rating",
            "choose": "choose the best of several answers",
            "embed": "turn texts into vectors that are close for similar texts",
        }.items()
    },
    "finetune translate": Command("Task", "teach a Transformer to write one text from another"),
    "translate": Command("Task", "let such a Transformer write texts"),
    "evaluate": Command("Task", "score a model on labelled data, or a masked LM on minimal pairs"),
    "predict": Command("Task", "run a fine-tuned model on new texts"),
    "embed": Command("Task", "turn texts into vectors, to compare or search them"),
    "look": Command("Task", "show the inside of a model on a page: attention, words that count"),
    "compress": Command("Task", "make a model smaller: fewer layers or tokens"),
    "serve": Command("Task", "serve models over HTTP, for any program", needs_torch=False),
    "push": Command("Task", "send a model to the Hugging Face hub", needs_torch=False),
    "score": Command(
        "Task", "score the predictions of any system, without a model", needs_torch=False
    ),
    "glue": Command("All", "fine-tune and score a model on the tasks of the GLUE benchmark"),
    "compare": Command(
        "All", "train several recipes with the same budget and test which is better"
    ),
    "demo": Command("All", "try everything in five minutes, on this computer's own documentation"),
    "hardware": Command("All", "measure how fast this computer is"),
    "recipes": Command(
        "All", "list the recipes: settings that go well together, by command", needs_torch=False
    ),
    "completion": Command("All", "print the tab completion for bash and zsh", needs_torch=False),
}


def add_own_tasks() -> None:
    """Add a command `finetune NAME` for each task that modules of the user have registered."""
    # The module of tasks imports torch, so it is not imported here. If nobody has imported it,
    # nobody has registered a task in it.
    tasks = sys.modules.get("bertsmith.tasks.catalog")
    for task in () if tasks is None else tasks.TASKS:
        summary = f"fine-tune a BERT for your own task '{task}'"
        COMMANDS.setdefault(f"finetune {task}", Command("Task", summary, "finetune"))


def find_command(words: Sequence[str]) -> str | None:
    """Return the name of the command that a line begins with; None if there is none.

    >>> find_command(("pretrain", "gpt", "--help"))
    'pretrain gpt'
    """
    names = [name for name in COMMANDS if list(words[: len(name.split())]) == name.split()]
    return max(names, key=len, default=None)  # not "pretrain" alone


def import_settings(name: str) -> Any:
    """Import the module that parses a command's line."""
    return importlib.import_module(f"bertsmith.commands.settings.{_module(name)}")


def import_work(name: str) -> Any:
    """Import the module that does a command's work."""
    return importlib.import_module(f"bertsmith.commands.{_module(name)}")


def help_page(name: str) -> Page:
    """Return a command's page of help, which is made from its settings."""
    # Parsing a line that asks for help raises `HelpRequested`, which holds the page.
    try:
        import_settings(name).parse(["--help"], f"bertsmith {name}")
    except HelpRequested as request:
        return request.page
    raise AssertionError(f"{name} has no help")


def _module(name: str) -> str:
    return COMMANDS[name].module or name.replace(" ", "_")

"""The command line: finds the command, runs it, and reports errors.

A command is one module in `commands/` with a function `main`, which parses its flags,
calls, and prints. Modules are imported only when their command is called, so `bertsmith --help`
answers at once.
"""

import errno
import importlib
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from bertsmith._version import __version__
from bertsmith.errors import BertsmithError, advice_on
from bertsmith.system.memory import asked_bytes, lacks_memory
from bertsmith.system.process_options import configure_process
from bertsmith.system.progress import showing_progress
from bertsmith.system.streams import (
    allow_any_character,
    discard,
    open_streams,
    restart_in_utf8,
    shown_warnings,
)


class Command(NamedTuple):
    """Which step of the road a command belongs to, what it is for, and where it lives."""

    step: str
    summary: str
    module: str = ""
    """Its module in `commands/`, if that is not called like it."""


COMMANDS = {
    "tokenizer train": Command("Text", "learn a vocabulary of word pieces from your texts"),
    "tokenizer extend": Command("Text", "add the pieces of your own texts to a model's vocabulary"),
    "corpus build": Command("Text", "turn texts into token ids on disk, ready for pre-training"),
    "corpus inspect": Command("Text", "show what a corpus holds"),
    "pretrain": Command(
        "Model", "teach a BERT your texts, a new one or one that you have (--from)"
    ),
    "params": Command("Model", "count a model's parameters, by component"),
    "plan": Command("Model", "what a pre-training run will take: time, memory, arithmetic"),
    "distill pretraining": Command("Model", "teach a smaller BERT your texts, by a larger one"),
    "fill": Command("Model", "let a pre-trained BERT fill in [MASK]"),
    **{
        f"finetune {task}": Command("Task", f"teach a BERT to {what}", "finetune")
        for task, what in {
            "classify": "sort texts into your classes",
            "answer": "find the answers to questions in passages",
            "tag": "label words: names, parts of speech",
            "regress": "give texts a number",
            "choose": "choose what fits a prompt",
            "embed": "make vectors that tell how alike texts are",
        }.items()
    },
    "evaluate": Command("Task", "score a model on labelled data, or a masked LM on minimal pairs"),
    "predict": Command("Task", "let a fine-tuned model answer for new texts"),
    "embed": Command("Task", "turn texts into vectors that tell how alike they are"),
    "compress": Command("Task", "make a model smaller: fewer layers, attention heads or tokens"),
    "score": Command("Task", "score the predictions of any system, without a model"),
    "glue": Command("All", "fine-tune to every task of the GLUE benchmark, and score it"),
    "compare": Command(
        "All", "recipes under the same budget and seeds, and what differs beyond noise"
    ),
    "demo": Command("All", "the whole road, on the documentation on this computer"),
    "hardware": Command("All", "show what this computer does best, as measured"),
}

PROG = "bertsmith"


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command; the process ends with 0, or with 2 after a problem the user can solve."""
    if argv is None:
        restart_in_utf8()
    open_streams()
    allow_any_character()
    args = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in args
    if debug:
        args.remove("--debug")
    try:
        with shown_warnings(PROG), showing_progress():
            run = _find(args)
            run()
        sys.stdout.flush()  # here, where it is answered that nobody takes it
    except BrokenPipeError:
        # The reader (head, less) has left; keep Python from complaining again at exit.
        discard(sys.stdout)
        raise SystemExit(0) from None
    except BertsmithError as error:
        if debug:
            raise
        print(f"{PROG}: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except (MemoryError, RuntimeError, ImportError, OSError) as error:
        if not debug and lacks_memory(error):
            print(f"{PROG}: {_name_of(args)}: {_lack_of_memory(error)}", file=sys.stderr)
            raise SystemExit(2) from None
        if debug or not isinstance(error, OSError) or error.errno is None:
            raise
        is_of_output = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
        place = error.filename or ("output" if is_of_output else "the system refused")
        try:
            sys.stdout.flush()
        except OSError:
            discard(sys.stdout)
        print(f"{PROG}: {place}: {error.strerror}. {advice_on(error)}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print(f"{PROG}: stopped by Ctrl-C; earlier output is as it was.", file=sys.stderr)
        raise SystemExit(2) from None


def _lack_of_memory(error: BaseException) -> str:
    """Say what could not be had and what needs less."""
    asked = asked_bytes(error)
    found = "" if asked is None else f" for another {max(1, round(asked / 1e6)):,} MB"
    return (
        f"found too little memory{found}. Give a smaller --max-length, --batch-size or "
        "--micro-batch-size, fewer --threads or --processes, a smaller model, or less text, where "
        "the command has that. Closing other programs helps, too."
    )


def _find(args: list[str]) -> Callable[[], None]:
    """Return what a line asks for; its module is imported."""
    if not args or args[0] in ("-h", "--help"):
        return partial(print, _overview())
    if args[0] in ("-V", "--version"):
        return partial(print, f"{PROG} {__version__}")
    name = _name_of(args)
    if name is None:
        if args[1:] in (["-h"], ["--help"]) and _siblings(args[0]):
            return partial(print, "\n".join(_table(_siblings(args[0]))))
        raise BertsmithError(_unknown(args))
    configure_process()
    module = COMMANDS[name].module or name.replace(" ", "_")
    command = importlib.import_module(f"bertsmith.commands.{module}")
    return partial(command.main, args[len(name.split()) :], f"{PROG} {name}")


def _name_of(args: Sequence[str]) -> str | None:
    """The command that a line begins with."""
    return next((name for name in COMMANDS if args[: len(name.split())] == name.split()), None)


def _overview() -> str:
    lines = [
        "From raw text to a working BERT, on the hardware you have.",
        "",
        "BERT is a neural network that reads text. It first learns a language by guessing hidden",
        "words in plain text (pre-training), then learns your task from a few labelled examples",
        "(fine-tuning). The commands below are the steps of that road, in order.",
        "",
        f"usage: {PROG} COMMAND [options]        ({PROG} COMMAND --help explains each option)",
    ]
    for step in dict.fromkeys(command.step for command in COMMANDS.values()):
        names = [name for name, command in COMMANDS.items() if command.step == step]
        lines += ["", f"{step}:", *_table(names)]
    lines += ["", "Any command takes --debug, which shows the full traceback of an error."]
    return "\n".join(lines)


def _table(names: Sequence[str]) -> list[str]:
    width = max(map(len, COMMANDS))
    return [f"  {name:<{width}}  {COMMANDS[name].summary}" for name in names]


def _siblings(word: str) -> list[str]:
    """The commands of two words that begin with this one."""
    return [name for name in COMMANDS if name.split()[0] == word and " " in name]


def _unknown(args: list[str]) -> str:
    import difflib

    words = " ".join(args[:2])
    if siblings := _siblings(args[0]):
        return f"'{words}' is not a command. After '{args[0]}': " + ", ".join(
            name.split()[1] for name in siblings
        )
    near = difflib.get_close_matches(args[0], [name.split()[0] for name in COMMANDS], n=1)
    hint = f"Did you mean '{near[0]}'? " if near else ""
    return f"'{args[0]}' is not a command. {hint}'{PROG} --help' lists them."


if __name__ == "__main__":
    main()

"""The command line: finds the command, runs it, and reports errors.

A command is one module in `commands/` with a function `main`, which parses its flags, calls, and
prints. It is imported only when called, so `bertsmith --help` answers at once.
"""

import errno
import gc
import importlib
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import NamedTuple

from bertsmith._version import __version__
from bertsmith.commands.help import HELP_FLAGS, HelpAsked, Page, pages
from bertsmith.commands.mistakes import as_flags_of
from bertsmith.errors import BertsmithError, Interrupted, advice_on
from bertsmith.pages.page import made_by
from bertsmith.system.escaping import command_streams
from bertsmith.system.memory import asked_bytes, lacks_memory
from bertsmith.system.process_options import configure_process
from bertsmith.system.progress import showing_progress
from bertsmith.system.stop_signal import (
    StopSignal,
    exit_code,
    raising_on_signals,
    stopped_by,
)
from bertsmith.system.streams import (
    allow_any_character,
    discard,
    open_streams,
    restart_in_utf8,
    shown_warnings,
    silenced,
)


class Command(NamedTuple):
    """A step of the road, and what a command is for."""

    step: str
    summary: str
    module: str = ""
    """Its module in `commands/`, if that is not called like it."""


COMMANDS = {
    "tokenizer train": Command("Text", "learn a vocabulary of subword tokens from your texts"),
    "tokenizer extend": Command("Text", "add the tokens of your own texts to a model's vocabulary"),
    "corpus build": Command("Text", "turn texts into token ids on disk, ready for pre-training"),
    "corpus inspect": Command("Text", "show what a corpus holds"),
    "pretrain": Command(
        "Model", "pre-train a BERT on your texts: a new one, or one that you have (--from)"
    ),
    "params": Command("Model", "count a model's parameters, by component"),
    "plan": Command("Model", "estimate what a pre-training run takes: time, memory, arithmetic"),
    "distill pretraining": Command(
        "Model", "pre-train a smaller BERT with the help of a larger one"
    ),
    "fill": Command("Model", "ask a pre-trained BERT which word belongs at [MASK]"),
    **{
        f"finetune {task}": Command("Task", f"fine-tune a BERT to {what}", "finetune")
        for task, what in {
            "classify": "sort texts into your classes",
            "answer": "find the answers to questions in passages",
            "tag": "label words, such as names or parts of speech",
            "regress": "give texts a score, such as a rating",
            "choose": "choose the best of several answers",
            "embed": "turn texts into vectors that are close for similar texts",
        }.items()
    },
    "evaluate": Command("Task", "score a model on labelled data, or a masked LM on minimal pairs"),
    "predict": Command("Task", "run a fine-tuned model on new texts"),
    "embed": Command("Task", "turn texts into vectors, to compare or search them"),
    "compress": Command("Task", "make a model smaller: fewer layers or tokens"),
    "push": Command("Task", "send a model to the Hugging Face hub"),
    "score": Command("Task", "score the predictions of any system, without a model"),
    "glue": Command("All", "fine-tune and score a model on the tasks of the GLUE benchmark"),
    "compare": Command(
        "All", "train several recipes with the same budget and test which is better"
    ),
    "demo": Command("All", "try everything in five minutes, on this computer's own documentation"),
    "hardware": Command("All", "show how fast this computer is, as measured"),
    "recipes": Command("All", "list the recipes: settings that go well together, by command"),
    "completion": Command("All", "print the tab completion for bash and zsh"),
}

PROG = "bertsmith"
GLOBAL_FLAGS = (("--debug",), ("-q", "--quiet"), ("-v", "--verbose"))


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command.

    The process ends with 0, with 2 after a problem the user can solve, and after a signal
    with 128 and its number: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
    """
    if argv is None:
        restart_in_utf8()
    open_streams()
    allow_any_character()
    args = list(sys.argv[1:] if argv is None else argv)
    if args[:1] == ["help"]:
        args = [*args[1:], "--help"]
    debug, quiet, verbose = (_take(args, *flags) for flags in GLOBAL_FLAGS)
    with (
        command_streams(),
        _problems_as_messages(args, debug=debug),
        raising_on_signals(at_exit=argv is None),
        shown_warnings(PROG),
        silenced() if quiet else nullcontext(),
        showing_progress(details=verbose),
        made_by(shlex.join([PROG, *args])),
    ):
        try:
            run = _find(args)
            run()
        except HelpAsked as asked:
            asked.print(f"{PROG} {_name_of(args)}")
        sys.stdout.flush()  # so that a closed pipe is told as one


@contextmanager
def _problems_as_messages(args: list[str], *, debug: bool) -> Iterator[None]:
    """End the process with a message for problems that the user can solve."""
    try:
        yield
    except BrokenPipeError:
        # The reader (head, less) has left; keep Python from complaining again at exit.
        discard(sys.stdout)
        raise SystemExit(0) from None
    except BertsmithError as error:
        if debug:
            raise
        message = as_flags_of(_name_of(args), error.message)
        print(f"{PROG}: {message}", file=sys.stderr)
        raise SystemExit(exit_code() if isinstance(error, Interrupted) else 2) from None
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
        print(f"{PROG}: stopped by {stopped_by()}. Earlier results are kept.", file=sys.stderr)
        raise SystemExit(exit_code()) from None


def _take(args: list[str], *flags: str) -> bool:
    """Remove flags that any command has; return whether one was there."""
    found = [word for word in args if word in flags]
    for word in found:
        args.remove(word)
    return bool(found)


def _lack_of_memory(error: BaseException) -> str:
    asked = asked_bytes(error)
    found = "" if asked is None else f" for another {max(1, round(asked / 1e6)):,} MB"
    return (
        f"not enough memory{found}. Use a smaller --max-length, --batch-size or "
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
    rest = args[len(name.split()) :]
    if rest and HELP_FLAGS.issuperset(rest):
        raise HelpAsked(pages()[name], args)
    configure_process()
    return partial(_main_of(name), rest, f"{PROG} {name}")


def _main_of(name: str) -> Callable[[Sequence[str], str], None]:
    module = f"bertsmith.commands.{COMMANDS[name].module or name.replace(' ', '_')}"
    if "torch" in sys.modules:  # called by a program, whose objects are its own
        return importlib.import_module(module).main
    # torch brings half a million objects that all stay: searching them for garbage again and again
    # costs 0.15 s of a start, and time in every later search.
    gc.disable()
    try:
        with StopSignal() as stop:  # torch's C++ code would swallow an interrupt, or crash
            main = importlib.import_module(module).main
    finally:
        gc.freeze()
        gc.enable()
    if stop.requested:
        raise KeyboardInterrupt
    return main


def live_page(name: str) -> Page:
    """Return a command's help as its settings are now, of which `help.json` has a copy."""
    try:
        _main_of(name)(["--help"], f"{PROG} {name}")
    except HelpAsked as asked:
        return asked.page
    raise AssertionError(f"{name} has no help")


def _name_of(args: Sequence[str]) -> str | None:
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
    lines += [
        "",
        f"New here? '{PROG} demo' goes the whole way in five minutes and needs no data.",
        "Every command takes -q (only the result), -v (more details) and --debug (the full",
        "traceback of an error). 'bertsmith completion' prints the completion for your shell.",
    ]
    return "\n".join(lines)


def _table(names: Sequence[str]) -> list[str]:
    width = max(map(len, COMMANDS))
    return [f"  {name:<{width}}  {COMMANDS[name].summary}" for name in names]


def _siblings(word: str) -> list[str]:
    return [name for name in COMMANDS if name.split()[0] == word and " " in name]


def _unknown(args: list[str]) -> str:
    import difflib

    siblings = [name.split()[1] for name in _siblings(args[0])]
    if siblings and len(args) == 1:
        return f"'{args[0]}' needs a second word: {', '.join(siblings)}."
    words, known = " ".join(args[:2]), [f"{args[0]} {name}" for name in siblings]
    if not siblings:
        words, known = args[0], [name.split()[0] for name in COMMANDS]
    near = difflib.get_close_matches(words, known, n=1)
    hint = f"Did you mean '{near[0]}'? " if near else ""
    others = f"'{PROG} --help' lists them."
    if siblings:
        others = f"After '{args[0]}': {', '.join(siblings)}."
    return f"'{words}' is not a command. {hint}{others}"

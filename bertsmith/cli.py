"""The command line: finds the command, lets tyro read its flags, and reports errors.

A command is one module in `commands/` with a function `main`, whose typed parameters are its
flags and whose docstring is its help. Modules are imported only when their command is called,
so `bertsmith --help` answers at once.
"""

import errno
import importlib
import sys
from collections.abc import Sequence
from typing import NamedTuple

from bertsmith._version import __version__
from bertsmith.errors import BertsmithError, advice_on
from bertsmith.system.hardware import own_process
from bertsmith.system.memory import asked_bytes, lacks_memory
from bertsmith.system.streams import (
    allow_any_character,
    discard,
    open_streams,
    restart_in_utf8,
    shown_warnings,
)


class Command(NamedTuple):
    """Where a command lives, which step of the road it belongs to, and what it is for."""

    module: str
    step: str
    summary: str


COMMANDS = {
    "tokenizer train": Command(
        "tokenizer_train", "Text", "learn a vocabulary of word pieces from your texts"
    ),
    "tokenizer extend": Command(
        "tokenizer_extend", "Text", "add the pieces of your own texts to a model's vocabulary"
    ),
    "corpus build": Command(
        "corpus_build", "Text", "turn texts into token ids on disk, ready for pre-training"
    ),
    "corpus inspect": Command("corpus_inspect", "Text", "show what a corpus holds"),
    "pretrain": Command(
        "pretrain", "Model", "teach a BERT your texts, a new one or one that you have (--from)"
    ),
    "params": Command("params", "Model", "count a model's parameters, by component"),
    "plan": Command("plan", "Model", "what a pre-training run will take: time, memory, arithmetic"),
    "distill pretraining": Command(
        "distill_pretraining", "Model", "teach a smaller BERT your texts, by a larger one"
    ),
    "fill": Command("fill", "Model", "let a pre-trained BERT fill in [MASK]"),
    "finetune classify": Command(
        "finetune", "Task", "teach a BERT to sort texts into your classes"
    ),
    "finetune answer": Command(
        "finetune", "Task", "teach a BERT to find the answers to questions in passages"
    ),
    "finetune tag": Command(
        "finetune", "Task", "teach a BERT to label words: names, parts of speech"
    ),
    "finetune regress": Command("finetune", "Task", "teach a BERT to give texts a number"),
    "finetune choose": Command("finetune", "Task", "teach a BERT to choose what fits a prompt"),
    "finetune embed": Command(
        "finetune", "Task", "teach a BERT to make vectors that tell how alike texts are"
    ),
    "evaluate": Command("evaluate", "Task", "score a fine-tuned model on labelled data"),
    "predict": Command("predict", "Task", "let a fine-tuned model answer for new texts"),
    "embed": Command("embed", "Task", "turn texts into vectors that tell how alike they are"),
    **{
        f"distill {task}": Command("distill", "Task", f"teach a smaller BERT {what}")
        for task, what in {
            "classify": "to sort texts as a fine-tuned one does",
            "answer": "to answer questions as a fine-tuned one does",
            "tag": "to label words as a fine-tuned one does",
            "regress": "to give texts the numbers that a fine-tuned one does",
            "choose": "to choose as a fine-tuned one does",
            "embed": "to make the vectors that a larger one does",
        }.items()
    },
    "compress layers": Command("compress_layers", "Task", "keep some of a model's layers"),
    "compress heads": Command(
        "compress_heads", "Task", "take out the attention heads that matter least"
    ),
    "compress vocabulary": Command(
        "compress_vocabulary", "Task", "keep the word pieces that your texts use"
    ),
    "score answer": Command(
        "score_answer", "Task", "score any system's answers to questions, as the official scorers"
    ),
    "score classify": Command("score_classify", "Task", "score any system's labels"),
    "score tag": Command("score_tag", "Task", "score any system's labels of words"),
    "score choose": Command("score_choose", "Task", "score any system's choices"),
    "score regress": Command("score_regress", "Task", "score any system's numbers"),
    "glue": Command("glue", "All", "fine-tune to every task of the GLUE benchmark, and score it"),
    "compare": Command(
        "compare", "All", "recipes under the same budget and seeds, and what differs beyond noise"
    ),
    "demo": Command("demo", "All", "the whole road, on the documentation on this computer"),
    "hardware": Command("hardware", "All", "show what this computer does best, as measured"),
}

PROG = "bertsmith"

LESS_MEMORY = {
    "tokenizer_train": "Give fewer --processes, or less text.",
    "tokenizer_extend": "Give fewer --processes, or less text.",
    "corpus_build": "Give fewer --processes, or smaller --shard-tokens.",
    "pretrain": "Give a smaller --micro-batch-size, --max-length or --preset, or fewer --threads.",
    "plan": "Give a smaller --micro-batch-size, --max-length or --preset.",
    "distill_pretraining": "Give a smaller --micro-batch-size or --max-length, or fewer --threads.",
    "finetune": "Give a smaller --batch-size or --max-length, fewer --threads, or a smaller model.",
    "distill": "Give a smaller --batch-size or --max-length, or fewer --threads.",
    "evaluate": "Give a smaller --max-length or --limit, or a smaller model.",
    "predict": "Give a smaller --max-length, or a smaller model.",
    "embed": "Give a smaller --max-length, or a smaller model.",
    "compress_heads": "Give fewer --num-examples.",
    "glue": "Give a smaller --max-length, or a smaller model.",
    "compare": "Give recipes with a smaller micro_batch_size or max_length.",
    "demo": "Give --quick.",
}
"""Advice where memory is lacking, by the module of a command."""


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
        with shown_warnings(PROG):
            _run(args)
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
            print(f"{PROG}: {_name_of(args)}: {_lack_of_memory(args, error)}", file=sys.stderr)
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


def _lack_of_memory(args: list[str], error: BaseException) -> str:
    """Say what could not be had and what needs less."""
    asked = asked_bytes(error)
    found = "" if asked is None else f" for another {max(1, round(asked / 1e6)):,} MB"
    name = _name_of(args)
    way_on = LESS_MEMORY.get(
        COMMANDS[name].module if name else "", "Use a smaller model, or less text."
    )
    return f"found too little memory{found}. {way_on} Closing other programs helps, too."


def _run(args: list[str]) -> None:
    if not args or args[0] in ("-h", "--help"):
        print(_overview())
        return
    if args[0] in ("-V", "--version"):
        print(f"{PROG} {__version__}")
        return
    name = _name_of(args)
    if name is None:
        if args[1:] in (["-h"], ["--help"]) and _siblings(args[0]):
            print("\n".join(_table(_siblings(args[0]))))
            return
        raise BertsmithError(_unknown(args))
    own_process()
    module = importlib.import_module(f"bertsmith.commands.{COMMANDS[name].module}")
    rest = args[len(name.split()) :]
    if hasattr(module, "parse"):  # a command that also reads a recipe
        module.main(module.parse(rest, f"{PROG} {name}"))
        return
    import tyro

    config = (tyro.conf.FlagCreatePairsOff,)
    tyro.cli(module.main, prog=f"{PROG} {name}", args=rest, config=config)


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

"""The command line: finds the command, runs it, and reports errors.

A command may run on several ranks, machines or GPUs that work together: a launcher such as torchrun
starts the same command line on each. Such a start is called a launch.
"""

import errno
import gc
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from traceback import print_exception
from typing import Any

from bertsmith._version import __version__
from bertsmith.commands.catalog import (
    COMMANDS,
    add_own_tasks,
    find_command,
    import_settings,
    import_work,
)
from bertsmith.commands.error_flags import as_flags_of
from bertsmith.commands.help import HELP_FLAGS, HelpRequested
from bertsmith.commands.launch_settings import read_launch_settings
from bertsmith.commands.option_words import option_words, with_resume
from bertsmith.errors import BertsmithError, ConfigError, Interrupted, advice_on
from bertsmith.pages.made_by import made_by
from bertsmith.system.escaping import command_streams
from bertsmith.system.launch import Launch, is_first_rank, read_launch, read_silence_limit
from bertsmith.system.memory import NO_THREAD, lacks_memory, requested_bytes
from bertsmith.system.own_modules import import_modules
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

PROG = "bertsmith"
GLOBAL_FLAGS = (("--debug",), ("-q", "--quiet"), ("-v", "--verbose"))
IMPORT_FLAG = "--import"


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command.

    The exit code is 0, or 2 after a problem that the user can solve, or after a signal 128 plus its
    number: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
    """
    if argv is None:  # the process is this command's own: no program has called `main` with a line
        _check_folder()
        restart_in_utf8()
    open_streams()  # closed streams are opened on the null device
    allow_any_character()  # characters that a stream's encoding lacks are replaced
    args = list(sys.argv[1:] if argv is None else argv)
    debug, quiet, verbose = (_remove_flag(args, *flags) for flags in GLOBAL_FLAGS)
    quiet |= not is_first_rank()  # of several ranks, only the first prints
    with (
        command_streams(),
        _report_errors(args, debug=debug),
        raising_on_signals(at_exit=argv is None),
        shown_warnings(PROG),
        silenced() if quiet else nullcontext(),
        showing_progress(details=verbose),
        made_by(shlex.join([PROG, *args])),  # HTML pages show this command
    ):
        try:
            with _telling_ranks(args, debug=debug):
                modules = _take_modules(args)
                # The list is changed in place: `_report_errors` reads the command's name from it.
                if args[:1] == ["help"]:
                    args[:] = [*args[1:], "--help"]
                run = _find_action(args, modules)
            run()
        except HelpRequested as request:
            _print_help(request, f"{PROG} {find_command(args)}")
        sys.stdout.flush()  # a closed pipe raises here, and not when Python exits


def _print_help(request: HelpRequested, prog: str) -> None:
    # Imported late, as a command that does its work lays out no help.
    import_module("bertsmith.commands.help_layout").print_help(request, prog)


def _check_folder() -> None:
    """End the process if its current folder was deleted, since no path can be found from there."""
    try:
        Path.cwd()
    except FileNotFoundError:
        _print_error("the folder that you are in no longer exists. Change to another one with cd.")
        raise SystemExit(2) from None


@contextmanager
def _report_errors(args: list[str], *, debug: bool) -> Iterator[None]:
    """End the process with a message for problems that the user can solve."""
    try:
        yield
    except BrokenPipeError:
        # The reader (head, less) has ended; keep Python from complaining again at exit.
        discard(sys.stdout)
        raise SystemExit(0) from None
    except BertsmithError as error:
        if debug:
            raise
        _print_error(_describe(error, args))
        raise SystemExit(exit_code() if isinstance(error, Interrupted) else 2) from None
    except (MemoryError, RuntimeError, ImportError, OSError) as error:
        if not debug and lacks_memory(error):
            _print_error(f"{find_command(args)}: {_describe_lack_of_memory(error)}", is_own=True)
            raise SystemExit(2) from None
        if debug or not isinstance(error, OSError) or error.errno is None:
            raise
        is_writing = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
        subject = error.filename or ("output" if is_writing else "error of the system")
        # What the command has printed comes before the message. If it finds no room, it is
        # discarded, since Python would try again at exit, and complain.
        try:
            sys.stdout.flush()
        except OSError:
            discard(sys.stdout)
        _print_error(f"{subject}: {error.strerror}. {advice_on(error)}", is_own=True)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        _print_error(f"stopped by {stopped_by()}. Earlier results are kept.")
        raise SystemExit(exit_code()) from None


@contextmanager
def _telling_ranks(args: list[str], *, debug: bool) -> Iterator[None]:
    """Tell the other ranks of a launch if this rank refuses its command line: they wait for it."""
    try:
        yield
    except BertsmithError as error:
        launch = None
        with suppress(BertsmithError):  # a launch that cannot be read has no ranks to tell
            launch = read_launch()
        if launch is None:
            raise
        message = _describe(error, args)
        if debug:
            print_exception(error)
        else:
            _print_error(message)  # before the others are told, which takes seconds
        # Imported late, as it needs torch.
        import_module("bertsmith.training.workers.line_check").tell_refusal(launch, message)
        raise SystemExit(2) from None


def _describe(error: BertsmithError, args: list[str]) -> str:
    """Return the message of an error, with options spelled as flags of the line's command."""
    command = find_command(args)
    return as_flags_of(command, error.of_command(command or "").message)


def _remove_flag(args: list[str], *flags: str) -> bool:
    """Remove a flag from the line, under any of its spellings; return whether the line had it.

    Words after `--` are no flags.
    """
    end = len(option_words(args))  # where `--` stands, if it does
    kept = [word for word in args[:end] if word not in flags]
    args[:end] = kept
    return len(kept) < end


def _take_modules(args: list[str]) -> list[str]:
    """Remove each `--import MODULE` from the line; return the modules.

    Raises:
        ConfigError: the flag stands without a module.
    """
    modules: list[str] = []
    index = 0
    while index < len(option_words(args)):  # which gets shorter as words are removed
        flag, equals, module = args[index].partition("=")
        if flag != IMPORT_FLAG:
            index += 1
            continue
        args.pop(index)
        if not equals and index < len(option_words(args)):
            module = args.pop(index)
        if not module or module.startswith("-"):
            raise ConfigError(f"{IMPORT_FLAG} needs the name of a module, such as my_family.")
        modules.append(module)
    return modules


def _describe_lack_of_memory(error: BaseException) -> str:
    """Return the message about missing memory; it names options with which less is needed."""
    num_bytes = requested_bytes(error)
    amount = "" if num_bytes is None else f" for another {max(1, round(num_bytes / 1e6)):,} MB"
    problem = f"not enough memory{amount}"
    if NO_THREAD in str(error):
        problem = (
            "no thread could be started: there is not enough memory, or the limit of processes is "
            "reached (that of the container, or 'ulimit -u')"
        )
    return (
        f"{problem}. Use a smaller --max-length, --batch-size or "
        "--micro-batch-size, fewer --threads or --processes, a smaller model, or less text, "
        "if the command has these options. Closing other programs helps, too."
    )


def _find_action(args: list[str], modules: Sequence[str]) -> Callable[[], None]:
    """Return a function that runs the command of a line, or prints help or the version.

    Args:
        args: the words of the line, from the command's name on.
        modules: modules of the user. They are imported before the line is parsed, since they may
            add a command `finetune NAME` or a name that a flag takes.

    Raises:
        BertsmithError: the line names no command, or a module cannot be imported.
    """
    if not args or args[0] in HELP_FLAGS:
        return partial(print, _format_overview())
    if args[0] in ("-V", "--version"):
        return partial(print, f"{PROG} {__version__}")
    name = find_command(args)
    if modules:
        _prepare_launch()
        # The help of a command of bertsmith is shown even if the user's module cannot be imported.
        is_optional = name is not None and not HELP_FLAGS.isdisjoint(option_words(args))
        ignored = (ConfigError,) if is_optional else ()
        with suppress(*ignored), _importing():
            import_modules(modules)
        add_own_tasks()
        name = find_command(args)
    if name is None:
        if len(args) == 2 and args[1] in HELP_FLAGS and _subcommands(args[0]):
            return partial(print, "\n".join(_format_table(_subcommands(args[0]))))
        raise BertsmithError(_describe_unknown(args))
    return _read_command(name, args[len(name.split()) :], modules)


def _read_command(name: str, args: Sequence[str], modules: Sequence[str]) -> Callable[[], None]:
    """Parse a command's line, then import the module that does its work.

    Args:
        name: the command, of one or two words.
        args: the words after the command's name.
        modules: modules of the user, which the line has as `--import MODULE`.

    Returns:
        A function that does the work; on several ranks, together with the others.
    """
    prog = f"{PROG} {name}"
    parse = import_settings(name).parse
    # Where the flags depend on the model's task, these are the words again, and `main` parses them.
    settings = parse(args, prog)
    launch = _prepare_launch()
    words = [*prog.split(), *(f"{IMPORT_FLAG}={module}" for module in modules)]
    line = [*words, *args]
    if launch is None:
        return partial(_import_main(name), settings, line)
    launch_settings = read_launch_settings(settings)
    # All ranks compare the line that the launcher gave them; only the work is told to resume.
    work_line = line
    if launch.num_restarts and launch_settings.has_run_to_resume:
        # After a failure, the launcher runs the command line of the start again, which has no
        # --resume. It has begun its run in the output folder, so this goes on with that run.
        args = with_resume(args)
        settings = parse(args, prog)
        work_line = [*words, *args]
    work = partial(_import_main(name), settings, work_line)
    return partial(_run_on_ranks, launch, work, line, launch_settings.threads)


def _prepare_launch() -> Launch | None:
    """Return the launch that this rank is part of, if any; call before torch is imported.

    Raises:
        ConfigError: the environment of the launch has a mistake, of which the other ranks are told.
    """
    launch = read_launch()
    if launch is not None:
        # By default, torch prints a stack each time that it fails to connect to another rank.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
        # The time that a rank may be silent before the others give it up. It is read later, where
        # ranks are joined; here a mistake in it is found early.
        read_silence_limit()
    return launch


def _run_on_ranks(
    launch: Launch, work: Callable[[], None], line: Sequence[str], threads: int | None
) -> None:
    """Run a command's work on this rank; `threads` are those of the line, None if it has none."""
    # Imported late, as it needs torch.
    import_module("bertsmith.commands.on_ranks").run_on_ranks(launch, work, line, threads)


def _print_error(message: str, *, is_own: bool = False) -> None:
    """Print an error. Of several ranks only the first prints, which is told the others' errors.

    Args:
        is_own: whether the error is of this rank alone, and rank 0 does not learn of it. Then this
            rank prints it, whatever its number.
    """
    launch = None
    try:
        launch = read_launch()
    except BertsmithError:  # this rank cannot find the others
        is_own = True
    if launch is not None and launch.rank > 0:
        message = f"rank {launch.rank}: {message}"
    if is_own or is_first_rank():
        print(f"{PROG}: {message}", file=sys.stderr)


def _import_main(name: str) -> Callable[[Any, Sequence[str]], None]:
    """Import the function `main` of a command, called with its settings and the line's words."""
    with _importing():
        if COMMANDS[name].needs_torch:
            # Only for speed: torch is imported here, before the command's module imports it. Python
            # 3.11 keeps the frames of its calls in chunks of 16 KiB. A call that does not fit into
            # the chunk allocates another one, and frees it on return. If torch is imported deeper
            # in the stack, 12,000 of its calls do so, which takes 0.1 s.
            import_module("torch")
        main: Callable[[Any, Sequence[str]], None] = import_work(name).main
    return main


@contextmanager
def _importing() -> Iterator[None]:
    """Prepare this process for modules that import torch, which the block imports.

    Raises:
        KeyboardInterrupt: the user asked to stop meanwhile.
    """
    configure_process()
    if "torch" in sys.modules:
        # A program that has imported torch itself keeps its garbage collection as it is.
        yield
        return
    # torch makes half a million permanent objects. Searching them for garbage while they are made
    # takes 0.15 s, and each later search would take longer, too.
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        with StopSignal() as stop:  # torch's C++ code would swallow an interrupt, or crash
            yield
    finally:
        gc.freeze()  # what exists now is never searched again
        if is_collecting:  # a program that calls `main` may have turned it off
            gc.enable()
    if stop.requested:
        raise KeyboardInterrupt


def _format_overview() -> str:
    lines = [
        "From raw text to a working BERT, on the hardware you have.",
        "",
        "BERT is a neural network that reads text. It first learns a language by guessing hidden",
        "words in plain text (pre-training), then learns your task from a few labelled examples",
        "(fine-tuning). The commands below are these steps, in order.",
        "",
        f"usage: {PROG} COMMAND [options]        ({PROG} COMMAND --help explains each option)",
    ]
    for step in dict.fromkeys(command.step for command in COMMANDS.values()):
        names = [name for name, command in COMMANDS.items() if command.step == step]
        lines += ["", f"{step}:", *_format_table(names)]
    lines += [
        "",
        f"New here? '{PROG} demo' goes the whole way in five minutes and needs no data.",
        "Every command takes -q (only the result), -v (more details) and --debug (the full",
        "traceback of an error). --import MODULE first imports a module of yours, which adds a",
        "family or a task. 'bertsmith completion' prints the completion for your shell.",
    ]
    return "\n".join(lines)


def _format_table(names: Sequence[str]) -> list[str]:
    width = max(map(len, COMMANDS))
    return [f"  {name:<{width}}  {COMMANDS[name].summary}" for name in names]


def _subcommands(word: str) -> list[str]:
    return [name for name in COMMANDS if name.split()[0] == word and " " in name]


def _describe_unknown(args: list[str]) -> str:
    """Return the message about a line whose first words are no command."""
    import difflib  # only here, as it is rarely needed

    subcommands = [name.split()[1] for name in _subcommands(args[0])]
    if subcommands and len(args) == 1:
        return f"'{args[0]}' needs a second word: {', '.join(subcommands)}."
    words = " ".join(args[:2])
    candidates = [f"{args[0]} {name}" for name in subcommands]
    if not subcommands:
        words = args[0]
        candidates = [name.split()[0] for name in COMMANDS]
    near = difflib.get_close_matches(words, candidates, n=1)
    hint = f"Did you mean '{near[0]}'? " if near else ""
    others = f"'{PROG} --help' lists them."
    if subcommands:
        others = f"After '{args[0]}': {', '.join(subcommands)}."
    return f"'{words}' is not a command. {hint}{others}"

"""Check by a folder's run.json whether the run that writes it has reached its end."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertsmith.errors import CheckpointError, ConfigError, option, warn_once
from bertsmith.system.json_text import parse_json
from bertsmith.system.locks import is_held, locked
from bertsmith.system.small_files import SmallFiles

PRETRAINING = ("pretrain", "distill pretraining")
"""Commands whose runs end with training; runs of other commands end with scoring."""
FITTED_HEADS = ("linear", "counts")
"""Values of `finetune classify --head` whose runs take seconds and cannot be resumed."""


def check_finished(files: SmallFiles) -> None:
    """Refuse a folder whose run has not reached its end, unless this thread is that run.

    Raises:
        CheckpointError: the run was stopped or is still at work; the message says how to go on.
    """
    directory = files.directory
    if is_held(directory):  # the lock on the folder is this thread's, so it is the run
        return
    run = read_run(files)
    kind = name_kind(run)
    # A run writes its settings when it begins (a series under its own name), a summary when it is
    # trained, and a fine-tuning its result when it is scored.
    is_begun = "config" in run or "series" in run
    last_entry = "result" if kind == "fine-tuning" else "summary"
    if is_begun and last_entry not in run:
        try:
            with locked(directory):  # fails while the run of another process holds the lock
                pass
        except ConfigError:
            raise CheckpointError(
                f"{directory}: another process is at work on this {kind}. Wait until it ends."
            ) from None
        settings = run.get("settings")
        if isinstance(settings, Mapping) and settings.get("head") in FITTED_HEADS:
            raise CheckpointError(
                f"{directory}: this {kind} was stopped before its end. Repeat the command that "
                f"began it, with {option('overwrite', True)}."
            )
        state = "it is trained, but not scored" if "summary" in run else "it is not trained"
        checkpoints = sorted((directory / "checkpoints").glob("step-*"))
        other = ""
        if kind == "pre-training" and checkpoints:
            other = f", or name {checkpoints[-1]}"
        raise CheckpointError(
            f"{directory}: this {kind} was stopped before its end: {state}. Repeat the command "
            f"that began it, with {option('resume', True)}{other}."
        )
    _warn_of_checkpoint(directory)


def name_kind(run: Mapping[str, Any]) -> str:
    """Name the kind of the run that wrote run.json: pre-training, fine-tuning or a series."""
    if "series" in run:
        return "series of runs"
    command = run.get("command")
    # Models other than BERT have commands of their own, such as "pretrain gpt".
    is_pretraining = command in PRETRAINING or str(command).startswith("pretrain ")
    return "pre-training" if is_pretraining else "fine-tuning"


def _warn_of_checkpoint(directory: Path) -> None:
    """Warn if a folder is a checkpoint of a fine-tuning, which lacks what the end of a run sets."""
    if directory.parent.name != "checkpoints" or is_held(directory.parent.parent):
        return
    run = read_run(SmallFiles(directory.parent.parent))
    if "config" in run and name_kind(run) == "fine-tuning":
        warn_once(
            f"{directory}: a checkpoint from the middle of a fine-tuning: it has neither the best "
            "weights of the run nor what scoring sets, such as the threshold for 'no answer'."
        )


def read_run(files: SmallFiles) -> Mapping[str, Any]:
    """Read run.json.

    The result is empty if there is no such file, if it is damaged (with a warning), or if its
    content is not an object, as another program may have written it.
    """
    try:
        run = parse_json(files.read("run.json"))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return {}
    except CheckpointError:  # a subclass of ValueError
        raise
    except ValueError as error:
        warn_once(
            f"{files.path('run.json')}: damaged ({error}), so it is not known "
            "whether the run reached its end. Copy the folder again."
        )
        return {}
    return run if isinstance(run, Mapping) else {}

"""`bertsmith pretrain`: a corpus → a pre-trained BERT."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bertsmith.commands.next_command import with_import_flags
from bertsmith.commands.output import print_json
from bertsmith.commands.resume import print_resume_state, resume_command
from bertsmith.commands.settings.pretrain import Settings
from bertsmith.model.electra_pair import GENERATOR
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.run import run_pretraining
from bertsmith.pretraining.summary import describe_pretraining, has_trained_generator
from bertsmith.system.output_files import lock_outputs
from bertsmith.system.paths import free_path, shell_path, with_name_of_its_own
from bertsmith.training.callback import Callback
from bertsmith.training.display import Display
from bertsmith.training.findings import find_plateau
from bertsmith.training.page import RunPage
from bertsmith.training.run_folder import RunFolder


def build_job(settings: Settings) -> PretrainJob:
    """Build the job that the settings describe."""
    return PretrainJob(
        corpus=settings.corpus,
        model=settings.model,
        pretraining=settings.pretraining,
        training=settings.training,
        optim=settings.optim,
        from_=settings.from_,
    )


def main(settings: Settings, line: Sequence[str]) -> None:
    """Pre-train; `line` holds the words of the command, for the advice on how to resume."""
    job = build_job(settings)
    if settings.resume:
        print_resume_state(settings.out, overwrite=settings.overwrite)
    with ExitStack() as stack:
        callbacks: list[Callback] = [stack.enter_context(Display())]
        if settings.page is not None:
            stack.enter_context(lock_outputs({"--page": settings.page}, input_file=None))
            callbacks.append(stack.enter_context(RunPage(settings.page, RunFolder(settings.out))))
        result = run_pretraining(
            job,
            settings.out,
            resume=settings.resume,
            overwrite=settings.overwrite,
            callbacks=callbacks,
            resume_command=resume_command(line),
        )
    if settings.json:
        print_json(result)
    else:
        print(describe_run(result))


def describe_run(result: dict[str, Any]) -> str:
    """Describe a run by its results; the commands that use the model come last."""
    return "\n".join([*describe_pretraining(result), *suggest_commands(result)])


def suggest_commands(result: Mapping[str, Any]) -> list[str]:
    """List commands that use the model.

    `result` is the summary of the run: its folder, steps, losses and speed. The list is empty after
    a run that stayed on the first plateau of the loss. Such a model has learned how frequent tokens
    are, but not yet to use their context.
    """
    if find_plateau(result) is not None:
        return []
    # The discriminator of an ELECTRA predicts no tokens; its generator does.
    masked_lm = f"{result['out']}/{GENERATOR}" if has_trained_generator(result) else result["out"]
    mask = result.get("mask_token", "[MASK]")
    model = Path(result["out"])
    named = with_name_of_its_own(model)
    out = free_path(named.with_name(f"{named.name.removesuffix('-bert')}-classifier"))
    fill = f'bertsmith fill {shell_path(masked_lm)} "… {mask} …"'
    finetune = (
        f"bertsmith finetune classify --model {shell_path(model)} --train train.csv --eval dev.csv "
        f"--out {shell_path(out)}"
    )
    # `with_import_flags` repeats the user's flags --import.
    return [f"try        {with_import_flags(fill)}", f"next       {with_import_flags(finetune)}"]

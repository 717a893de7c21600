"""`bertsmith pretrain`: a corpus → a pre-trained BERT."""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from bertsmith.commands.flags import parse_with_recipe
from bertsmith.commands.resume import resume_command, tell_where_it_resumes
from bertsmith.model.electra_pair import GENERATOR
from bertsmith.pretraining.from_model import describe_start
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.objective import PAIR_TERMS
from bertsmith.pretraining.run import run_pretraining
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.system.files import hold_outputs
from bertsmith.system.paths import shell_path
from bertsmith.training.display import Display
from bertsmith.training.findings import find_plateau
from bertsmith.training.objective import TERM_NAMES
from bertsmith.training.optim import OptimSettings
from bertsmith.training.page import RunPage
from bertsmith.training.recorder import Callback
from bertsmith.training.run_folder import RunFolder
from bertsmith.training.settings import TrainingSettings

DESCRIPTION = """Pre-train a BERT on your texts.

The model reads rows of your text in which some tokens are hidden, and learns to predict them
(masked LM). Each row has two segments, and the model also learns to tell whether the second follows
the first in the text (next sentence prediction); --pairs chooses another task, or none. No labels
are needed. The result is a Hugging Face folder for `bertsmith fill` and `bertsmith finetune`.

With --from, the command continues a model that was pre-trained on other texts. It keeps the model's
vocabulary; `bertsmith tokenizer extend` adds tokens to it.

With --recipe, the command starts from settings that were tried: quarter-hour learns the most in 15
minutes on a laptop; hour and night are for more time."""


NOTED_SHARE = 0.01


@dataclass(frozen=True)
class Settings:
    """The command line of `bertsmith pretrain`."""

    corpus: Path
    """Folder that `bertsmith corpus build` wrote."""
    out: Path
    """Folder for the model, its checkpoints, journal and curves."""
    from_: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """Model to continue from: a folder, or "org/name" on the Hugging Face hub. The corpus must be
    built with its tokenizer or an extension of it."""
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    pretraining: PretrainingSettings = field(default_factory=PretrainingSettings)
    optim: OptimSettings = field(default_factory=OptimSettings)
    resume: bool = False
    """Continue the run in --out from its newest checkpoint, as if it had never stopped."""
    overwrite: bool = False
    """Replace an earlier run in --out."""
    page: Path | None = None
    """HTML page to write while the run lasts: its curves and settings. A browser loads it again
    every ten seconds by itself."""
    json: bool = False
    """Print one JSON object at the end instead of text."""


def build_job(settings: Settings, corpus: Path | None = None) -> PretrainJob:
    """Build the job of the settings, over their corpus or another."""
    return PretrainJob(
        corpus=corpus or settings.corpus,
        model=settings.model,
        pretraining=settings.pretraining,
        training=settings.training,
        optim=settings.optim,
        from_=settings.from_,
    )


def parse(args: Sequence[str], prog: str) -> Settings:
    """Parse recipe and flags; a given length unsets the recipe's other kind."""
    return parse_with_recipe(Settings, one_length(args), prog, DESCRIPTION, "pretrain")


def main(args: Sequence[str], prog: str) -> None:
    settings = parse(args, prog)
    job = build_job(settings)
    if settings.resume:
        # Before it is told, since what is refused does not go on.
        RunFolder(settings.out).check(resume=True, overwrite=settings.overwrite)
        tell_where_it_resumes(settings.out)
    with ExitStack() as stack:
        callbacks: list[Callback] = [stack.enter_context(Display())]
        if settings.page is not None:
            stack.enter_context(hold_outputs({"--page": settings.page}, None))
            callbacks.append(stack.enter_context(RunPage(settings.page, RunFolder(settings.out))))
        result = run_pretraining(
            job,
            settings.out,
            resume=settings.resume,
            overwrite=settings.overwrite,
            callbacks=callbacks,
            resume_command=resume_command(args, prog),
        )
    print(json.dumps(result) if settings.json else describe_run(result))


def describe_run(result: dict[str, Any]) -> str:
    lines = [
        *describe_start(result.get("source")),
        f"trained    {result['steps']:,} steps, {result['real_tokens']:,} tokens in "
        f"{float(result['elapsed_seconds']) / 60:.1f} minutes "
        f"({result['tokens_per_second']:,.0f} tokens/s, waited {result['data_wait_fraction']:.1%})",
    ]
    if float(result.get("single_sentence_share", 0.0)) > NOTED_SHARE:
        lack = "teach no order" if "sop_loss" in result else "have no next sentence"
        lines.append(
            f"note       {result['single_sentence_share']:.1%} of the text lies in documents of "
            f"one sentence, which {lack}"
        )
    if float(result.get("single_character_share", 0.0)) > NOTED_SHARE:
        lines.append(
            f"note       {result['single_character_share']:.1%} of the text are Chinese "
            "characters, each of them a word here, as none were named (--word-list, --segmenter)"
        )
    before = result.get("before", {})
    if "held_out_mlm_loss" in result:
        lines.append(
            f"eval       masked LM {_figures('mlm', before, result)} "
            f"(token frequency alone: loss {result['held_out_unigram_entropy']:.3f})"
        )
    lines += [
        f"           {TERM_NAMES[term]} {_figures(term, before, result)}"
        f"{'' if term == 'contrast' else ' (chance 50.0 %)'}"
        for term in PAIR_TERMS.values()
        if f"held_out_{term}_loss" in result
    ]
    if "held_out_rtd_loss" in result:
        lines += describe_detection(before, result)
    lines.append(f"model      {result['out']}  (curves.svg and journal.jsonl beside it)")
    lines += [
        f"note       {finding['evidence']}. {finding['advice']}"
        for finding in result.get("findings", ())
        if finding["severity"] != "info" and finding["code"] != "plateau"
    ]
    if (plateau := find_plateau(result)) is not None:
        lines.append(f"next       {plateau.advice}")
        return "\n".join(lines)
    guesser = f"{result['out']}/{GENERATOR}" if "rtd_loss" in result else result["out"]
    mask = result.get("mask_token", "[MASK]")
    lines.append(f'try        bertsmith fill {shell_path(guesser)} "… {mask} …"')
    return "\n".join(lines)


def describe_detection(before: Mapping[str, float], after: Mapping[str, float]) -> list[str]:
    original = 1 - after["held_out_rtd_replaced"]
    recall, precision, auc = (after[f"held_out_rtd_{x}"] for x in ("recall", "precision", "auc"))
    return [
        f"           {TERM_NAMES['rtd']} {_figures('rtd', before, after)} (all called original: "
        f"{100 * original:.1f} %)",
        f"           recall {recall:.1%}, precision {precision:.1%}, area under the ROC curve "
        f"{auc:.3f}",
    ]


def _figures(term: str, before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Format eval loss and accuracy; with `--from`, also those at the beginning."""
    loss, accuracy = f"held_out_{term}_loss", f"held_out_{term}_accuracy"
    if loss not in before:
        return f"loss {after[loss]:.3f}, accuracy {100 * after[accuracy]:.1f} %"
    return (
        f"loss {before[loss]:.3f} → {after[loss]:.3f}, accuracy {100 * before[accuracy]:.1f} → "
        f"{100 * after[accuracy]:.1f} %"
    )


def one_length(args: Sequence[str]) -> list[str]:
    """Unset `steps` where `minutes` is given on the line, and the reverse."""
    given = {word.split("=")[0] for word in args}
    unset = [
        [f"--{other}", "None"]
        for name, other in (("minutes", "steps"), ("steps", "minutes"))
        if f"--{name}" in given and f"--{other}" not in given
    ]
    return [*args, *(word for pair in unset for word in pair)]

"""Training of a GPT, LSTM, ELMo or T5 on a corpus, for the commands `pretrain gpt` and so on."""

from collections.abc import Sequence

from bertsmith.commands.output import print_json
from bertsmith.commands.resume import print_resume_state, resume_command
from bertsmith.commands.settings.pretrain_system import PretrainSystem
from bertsmith.lineage.pretraining_run import SystemJob, pretrain_system
from bertsmith.pretraining.summary import describe_pretraining
from bertsmith.training.display import Display


def run_system(system: str, settings: PretrainSystem, line: Sequence[str]) -> None:
    """Train a system (a model of another kind than BERT) and print its results as text or JSON.

    Args:
        system: "gpt", "lstm", "elmo" or "t5".
        line: the words of the command, for the advice on how to resume.
    """
    job = SystemJob(system, settings.corpus, settings.model, settings.training, settings.optim)
    if settings.resume:
        print_resume_state(settings.out, overwrite=settings.overwrite)
    with Display() as display:
        result = pretrain_system(
            job,
            settings.out,
            resume=settings.resume,
            overwrite=settings.overwrite,
            callbacks=[display],
            resume_command=resume_command(line),
        )
    if settings.json:
        print_json(result)
    else:
        print("\n".join(describe_pretraining(result)))

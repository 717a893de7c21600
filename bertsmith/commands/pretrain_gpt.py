"""`bertsmith pretrain gpt`: a corpus → a GPT."""

import json
from collections.abc import Sequence

from bertsmith.commands.resume import resume_command, tell_where_it_resumes
from bertsmith.commands.settings.pretrain_gpt import Settings
from bertsmith.lineage.pretraining_run import SystemJob, pretrain_system
from bertsmith.pretraining.summary import describe_pretraining
from bertsmith.system.paths import shell_path
from bertsmith.training.display import Display
from bertsmith.training.run_folder import RunFolder


def main(settings: Settings, line: Sequence[str]) -> None:
    job = SystemJob("gpt", settings.corpus, settings.model, settings.training, settings.optim)
    if settings.resume:
        # Checked before the message, since a refused run is not resumed.
        RunFolder(settings.out).check(resume=True, overwrite=settings.overwrite)
        tell_where_it_resumes(settings.out)
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
        print(json.dumps(result))
        return
    print("\n".join(describe_pretraining(result)))
    print(f'try        bertsmith generate {shell_path(settings.out)} "The"')

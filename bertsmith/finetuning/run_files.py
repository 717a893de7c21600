"""The files and the output folder of a fine-tuning: checks and checksums."""

from bertsmith.errors import ConfigError, option
from bertsmith.system.files import sha256_file
from bertsmith.system.paths import is_within
from bertsmith.tasks.settings.finetune import FinetuneSettings
from bertsmith.training.run_folder import RunFolder


def file_sums(settings: FinetuneSettings) -> dict[str, str]:
    """Compute the SHA-256 of each file of examples, by its path."""
    files = [path for path in (settings.train, settings.eval) if path.is_file()]
    return {str(file): sha256_file(file) for file in files}


def check_run_out(settings: FinetuneSettings) -> None:
    """Refuse an `out` that contains the model to start from, or another run.

    Raises:
        ConfigError: it contains one of these, or the settings name no eval examples.
    """
    settings.check_held_out()  # that eval examples are named, where the run needs some
    out = settings.out
    if is_within(settings.model, out):
        raise ConfigError(
            f"{out}: holds {option('model', settings.model)}. Choose another {option('out')}."
        )
    # The entry of run.json that is written last: a single run is complete once it is scored.
    final_key = "summary" if settings.is_series else "result"
    RunFolder(out).check(
        resume=settings.resume,
        overwrite=settings.overwrite,
        final_key=final_key,
        kind="series of runs" if settings.is_series else "fine-tuning",
        can_resume=settings.can_resume,
    )

"""Read the settings that a model's folder was trained with, as parameters of an estimator."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from bertsmith.errors import CheckpointError
from bertsmith.training.run_folder import RunFolder


def read_trained_settings(folder: Path) -> dict[str, Any]:
    """Read the settings of the run that wrote a folder; empty if the folder does not record them.

    The keys are spelled like parameters, such as `batch_size`.
    """
    run = RunFolder(folder)
    with suppress(CheckpointError):  # run.json is damaged; the model itself is in other files
        if run.run_path.is_file():
            facts = run.read_run()
            # A series of runs, such as the models of an average, stores them by another name.
            settings = facts.get("settings") or facts.get("series")
            if settings and all(isinstance(key, str) for key in settings):
                named = {key.replace("-", "_"): value for key, value in settings.items()}
                if named.get("average"):  # an estimator has no such option, and a single model
                    named.pop("corpus", None)  # learns from no corpus
                return named
    return {}

"""MLflow: a run's metrics in its tracking store, which MLFLOW_TRACKING_URI names.

MLFLOW_EXPERIMENT_NAME names the experiment; the default is "bertsmith".
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bertsmith.errors import ConfigError, option, warn_once
from bertsmith.training.trackers.tracker import Tracker

MAX_PARAMS = 100
"""Largest number of settings that MLflow accepts in a request."""
MAX_CHARACTERS = 500
"""Longest value of a setting that every store accepts."""


def begin_mlflow(directory: Path, config: Mapping[str, Any]) -> Tracker:
    """Begin a run of MLflow with the name of the folder, and store the settings in `config`.

    Raises:
        ConfigError: the tracking store cannot be used.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when it is imported
    from mlflow import MlflowClient
    from mlflow.entities import Param
    from mlflow.exceptions import MlflowException

    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "bertsmith")
    params = [Param(key, str(value)[:MAX_CHARACTERS]) for key, value in config.items()]
    try:
        client = MlflowClient()
        experiment = client.get_experiment_by_name(name)
        experiment_id = (
            client.create_experiment(name) if experiment is None else experiment.experiment_id
        )
        run_id = client.create_run(experiment_id, run_name=directory.resolve().name).info.run_id
        for first in range(0, len(params), MAX_PARAMS):
            client.log_batch(run_id, params=params[first : first + MAX_PARAMS])
    except (MlflowException, OSError) as error:
        first_line = str(error).strip().partition("\n")[0]
        raise ConfigError(
            f"{option('report_to', 'mlflow')}: {first_line} Set "
            "MLFLOW_TRACKING_URI to a store that works, such as http://localhost:5000 of 'mlflow "
            "server', or 'pip install mlflow': mlflow-skinny alone has no store in a file."
        ) from error
    return MlflowTracker(client, run_id)


class MlflowTracker(Tracker):
    """A run of MLflow. If the store fails later, metrics are lost, but the training continues."""

    def __init__(self, client: Any, run_id: str) -> None:
        super().__init__()
        self._client, self._run_id = client, run_id

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Send metrics by name, of `step` or as means of the steps up to it."""
        from mlflow.entities import Metric

        milliseconds = int(time.time() * 1000)
        metrics = [Metric(name, value, milliseconds, step) for name, value in values.items()]
        self._send(self._client.log_batch, metrics=metrics)

    def close(self, *, failed: bool) -> None:
        """End the run of MLflow; `failed` is whether an error ended the training."""
        self._send(self._client.set_terminated, status="FAILED" if failed else "FINISHED")

    def _send(self, send: Callable[..., object], **arguments: Any) -> None:
        from mlflow.exceptions import MlflowException

        try:
            send(self._run_id, **arguments)
        except (MlflowException, OSError) as error:
            first_line = str(error).partition("\n")[0]
            warn_once(
                f"mlflow: a metric was not stored ({first_line}). The journal has all of them."
            )

"""The folder of a run: where its files are, and whether a new run may begin in it.

    OUT/                      the final model, a Hugging Face folder
    ├── run.json              settings, versions, machine, data; at the end also the summary
    ├── journal.jsonl         one object per step and per held-out evaluation
    ├── events.out.tfevents…  the same for TensorBoard
    ├── curves.png            the same as a picture, at the end
    ├── checkpoints/          step-00000500/ and so on, the last few
    └── earlier-run/          the complete run that --overwrite replaces, until the new one is

Nothing of an earlier run is changed unless the user asked to resume or to overwrite it.
"""

import json
import platform
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertsmith import __version__
from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.files import write_error, write_json

PLAIN_FILES = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
)
MODEL_FILES = (
    *PLAIN_FILES,
    # Of a model that another was trained with.
    *(f"generator/{name}" for name in PLAIN_FILES),
    # Of a sentence encoder.
    "modules.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
)


class RunFolder:
    """Paths of one run, by name."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.run_path = self.path / "run.json"
        self.journal_path = self.path / "journal.jsonl"
        self.curves_path = self.path / "curves.png"
        self.failure_path = self.path / "failure.json"
        self.checkpoints_dir = self.path / "checkpoints"
        self.earlier_dir = self.path / "earlier-run"

    @property
    def has_run(self) -> bool:
        """Whether a run or a model stands here."""
        known = [self.run_path, self.journal_path, self.checkpoints_dir]
        return any(path.exists() for path in [*known, self.path / "model.safetensors"])

    def check(self, *, resume: bool, overwrite: bool, last: str = "summary") -> None:
        """Refuse what the folder does not allow; nothing is written.

        `last` is what `run.json` holds of a run only when it is complete.

        Raises:
            ConfigError: an earlier run stands here and was not named to go on or to go; there is
                no run to resume; the run to resume is complete.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"{self.path}: a file, not a folder. Choose another --out.")
        if resume and overwrite:
            raise ConfigError("--resume and --overwrite exclude each other. Give one of them.")
        if resume and not self.run_path.exists():
            raise ConfigError(f"{self.path}: no run to resume. Leave out --resume to begin one.")
        if resume and last in self.read_run():
            raise ConfigError(
                f"{self.path}: this run is complete, there is nothing to resume. Choose another "
                "--out for a new run, or pass --overwrite to replace it."
            )
        if not (resume or overwrite) and self.has_run:
            raise ConfigError(
                f"{self.path}: holds an earlier run. Pass --resume to continue it, --overwrite to "
                "replace it, or choose another --out."
            )

    def begin(self) -> None:
        """Make the folder and clear it of an earlier run's files, and only those.

        A model in it is put aside with its run, until `finish`: the new run may fail.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if (self.path / "model.safetensors").exists():
                self._put_aside()
        except OSError as error:
            raise write_error(self.path, error) from error
        shutil.rmtree(self.checkpoints_dir, ignore_errors=True)
        for path in self._files():
            path.unlink(missing_ok=True)

    def finish(self) -> None:
        """Remove the earlier run that was put aside: the new one is complete."""
        shutil.rmtree(self.earlier_dir, ignore_errors=True)

    def read_run(self) -> dict[str, Any]:
        """What `run.json` holds.

        Raises:
            CheckpointError: the file is damaged.
        """
        try:
            value = json.loads(self.run_path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise CheckpointError(
                f"{self.run_path}: damaged ({error}). Begin the run again with --overwrite."
            ) from None
        return dict(value)

    def write_run(self, facts: Mapping[str, Any]) -> None:
        """Write `run.json` anew."""
        write_json(self.run_path, facts)

    def _put_aside(self) -> None:
        shutil.rmtree(self.earlier_dir, ignore_errors=True)
        self.earlier_dir.mkdir()
        for path in self._files():
            if path.exists():
                place = self.earlier_dir / path.relative_to(self.path)
                place.parent.mkdir(exist_ok=True)
                path.rename(place)

    def _files(self) -> list[Path]:
        """Every file that a run writes directly into its folder."""
        known = [self.run_path, self.journal_path, self.curves_path, self.failure_path]
        model = [self.path / name for name in MODEL_FILES]
        return [*known, *model, *self.path.glob("events.out.tfevents.*")]


def machine_facts(device: torch.device) -> dict[str, Any]:
    """Versions and machine, for `run.json`: what a figure depends on beside the settings."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "versions": {
            "bertsmith": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "machine": {
            "system": f"{sys.platform} {platform.release()}",
            "device": str(device),
            "processor": name,
            "threads": torch.get_num_threads(),
        },
    }

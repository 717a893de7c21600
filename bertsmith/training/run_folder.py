"""The folder of a run: the paths of its files, and whether a run may begin or resume in it.

    OUT/                      the final model, a Hugging Face folder
    ├── run.json              settings, versions, machine, data; at the end also the summary
    ├── journal.jsonl         one object per step and per held-out evaluation
    ├── events.out.tfevents…  the content of the journal for TensorBoard
    ├── curves.svg            the content of the journal as a picture, at the end
    ├── README.md             the model card
    ├── checkpoints/          step-00000500/ and so on, the last few
    ├── runs/                 in a series of runs, a folder like OUT for each: seed-0/ …
    ├── repeats.json          in a series of runs, the mean of each score and its spread
    └── earlier-run/          the run that --overwrite replaces, until the new run is complete

Existing files are changed only if the user asked to resume or to overwrite the run. A *series* is
several fine-tunings with other seeds or folds.
"""

import contextlib
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from bertsmith.errors import CheckpointError, ConfigError, option, read_error
from bertsmith.model.head_names import LINEAR_HEAD_FILE, MEMBERS_FOLDER
from bertsmith.model.hub import CARD_FILE, is_own_card
from bertsmith.system.bounds import LARGEST
from bertsmith.system.checksums import SUMMED_FILES, SUMS_FILE
from bertsmith.system.files import move, removed_name, write_json
from bertsmith.system.hardware import ComputeChoices
from bertsmith.system.json_text import parse_json
from bertsmith.system.launch import LAUNCH, read_launch_id
from bertsmith.system.locks import hold_folder, locked
from bertsmith.system.run_state import name_kind
from bertsmith.system.small_files import read_small_file
from bertsmith.system.write_error import naming_write_errors
from bertsmith.training.run_facts import RunFacts, damaged_run
from bertsmith.training.run_machine import read_choices

MODEL_FILES = tuple(
    f"{folder}{name}"
    for folder in ("", "generator/")  # an ELECTRA's generator has a model folder of its own
    # All files of tokenizers: if one of another kind were left, it would be read with the new one.
    for name in (*sorted(SUMMED_FILES), "model.safetensors", LINEAR_HEAD_FILE, SUMS_FILE)
)
"""Files of a model folder that bertsmith writes."""
MODEL_SUBFOLDERS = sorted({Path(name).parts[0] for name in MODEL_FILES if "/" in name})
"""Folders inside a model folder."""
CONFIG = "config"
"""Key in `run.json`: the configuration that a resumed run must share."""
LEFTOVER_PATTERN = re.compile(r"earlier-run|\..+\.(tmp|lock|removed)")
"""Names of locks, and of files and folders that a killed run left. A folder with only these counts
as empty."""


class RunFolder:
    """The folder of one run: the paths of its files, its lock, and its beginning and end."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.run_path = self.path / "run.json"
        self.journal_path = self.path / "journal.jsonl"
        self.curves_path = self.path / "curves.svg"
        self.failure_path = self.path / "failure.json"
        self.checkpoints_dir = self.path / "checkpoints"
        self.runs_dir = self.path / "runs"
        self.repeats_path = self.path / "repeats.json"
        self.earlier_dir = self.path / "earlier-run"
        self._aside_dir = self.path / ".earlier-run.tmp"
        """Folder in which `begin` collects the earlier run before it becomes `earlier_dir`."""

    @property
    def has_run(self) -> bool:
        """Whether the folder has a run or a model."""
        records = [self.run_path, self.journal_path, self.checkpoints_dir]
        return any(path.exists() for path in [*records, self.path / "model.safetensors"])

    @property
    def holds_series(self) -> bool:
        """Whether the folder has a series of fine-tuning runs."""
        return self.run_path.exists() and "series" in self.read_run()

    @property
    def is_trained(self) -> bool:
        """Whether the run, whose `run.json` exists, is trained; it may lack scores or curves."""
        return "summary" in self.read_run()

    @property
    def is_pretrained(self) -> bool:
        """Whether the folder has a complete pre-training: its curves are drawn last."""
        return self.run_path.exists() and self.is_trained and self.curves_path.exists()

    def check(
        self,
        *,
        resume: bool,
        overwrite: bool,
        final_key: str = "summary",
        kind: str = "pre-training",
        can_resume: bool = True,
    ) -> None:
        """Check that the run may begin or resume here; nothing is written.

        Args:
            resume: continue the run in the folder.
            overwrite: replace the run in the folder.
            final_key: the key that `run.json` has only once the run is complete. A complete
                pre-training has its curves, too.
            kind: "pre-training", "fine-tuning" or "series of runs".
            can_resume: whether runs of this kind can be resumed, for the advice in messages.

        Raises:
            ConfigError: the folder has a run or other files, and neither `resume` nor `overwrite`
                is set; there is no run to resume; the run to resume is complete; another process
                uses the folder.
            CheckpointError: the `run.json` of the run to resume is damaged.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"{self.path}: a file, not a folder. Choose another {option('out')}.")
        if resume and overwrite:
            raise ConfigError(
                f"{option('resume', True)} and {option('overwrite', True)} exclude each other. "
                "Give one of them."
            )
        if resume:
            if not self.run_path.exists():
                raise ConfigError(
                    f"{self.path}: no run to resume. Leave out {option('resume', True)} to begin "
                    "one."
                )
            run = self.read_run()
            if not run:
                raise damaged_run(self.run_path, "it is empty")
            if (run_kind := name_kind(run)) != kind:
                raise ConfigError(
                    f"{self.path}: holds a {run_kind}, not a {kind}. Choose another "
                    f"{option('out')}, or resume it by the command that began it, with "
                    f"{option('seeds')} or {option('folds')} if it had them."
                )
            if final_key in run and (kind != "pre-training" or self.curves_path.exists()):
                raise ConfigError(
                    f"{self.path}: this run is complete, so there is nothing to resume. Choose "
                    f"another {option('out')} for a new run, or pass {option('overwrite', True)} "
                    "to replace it."
                )
            run.check_complete(kind)
        elif not overwrite:
            if self.has_run:
                resume_it = f"{option('resume', True)} to continue it, " if can_resume else ""
                raise ConfigError(
                    f"{self.path}: holds an earlier run. Pass {resume_it}"
                    f"{option('overwrite', True)} to replace it, or choose another "
                    f"{option('out')}."
                )
            paths = self.path.iterdir() if self.path.exists() else ()
            names = [path.name for path in paths if not LEFTOVER_PATTERN.fullmatch(path.name)]
            if names:
                raise ConfigError(
                    f"{self.path}: the folder is not empty (found {max(names)}). Choose another "
                    f"{option('out')}, or pass {option('overwrite', True)} to use it."
                )
        if self.path.exists():
            with self.locked():  # raises an error if another process uses the folder
                pass

    def locked(self) -> AbstractContextManager[None]:
        """Lock the folder for the block, if the file system can; blocks may be nested.

        Raises:
            ConfigError: another process has locked it.
        """
        return locked(self.path)

    def held(self, check: Callable[[], object]) -> AbstractContextManager[None]:
        """Create the folder if it is missing, and hold its lock for a whole job.

        Args:
            check: raises an error if the folder is unsuitable; called under the lock, since another
                process may have changed the folder before.

        Raises:
            ConfigError: another process uses the folder.
        """
        return hold_folder(self.path, check)

    def begin(self) -> None:
        """Make the folder, and move the files of an earlier run, and only these, to `earlier_dir`.

        They stay there until `finish`, since the new run may fail.

        Raises:
            ConfigError: another process uses the folder.
        """
        with naming_write_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            with self.locked():
                self._put_aside()

    def finish(self) -> None:
        """Remove the earlier run that was put aside, since the new one is complete."""
        shutil.rmtree(self.earlier_dir, ignore_errors=True)

    def read_run(self) -> RunFacts:
        """Read `run.json`.

        Raises:
            FileNotFoundError: there is none.
            CheckpointError: the file is damaged or cannot be read. Reading a missing fact from the
                result raises it, too.
        """
        try:
            text = read_small_file(self.run_path).decode("utf-8-sig")
            value = parse_json(text, object_hook=partial(RunFacts.of, self.run_path))
            if not isinstance(value, RunFacts):
                raise ValueError("it is not an object")
        except (FileNotFoundError, CheckpointError):  # the latter is a ValueError, too
            raise
        except OSError as error:
            raise read_error(CheckpointError, self.run_path, error) from error
        except ValueError as error:
            raise damaged_run(self.run_path, str(error)) from None
        value.check()
        return value

    def read_choices(self) -> ComputeChoices | None:
        """Read the choices by which this run computes on a CPU, such as its precision.

        The result is None on a GPU, where there are none.

        Raises:
            FileNotFoundError: there is no `run.json`.
            CheckpointError: it is damaged.
        """
        return read_choices(self.read_run())

    def write_run(self, facts: Mapping[str, Any]) -> None:
        """Write `run.json`: these facts and, if torchrun launched the run, the id of the launch.

        Raises:
            InputError: the disk is full or cannot be written.
        """
        launch_id = read_launch_id()
        write_json(self.run_path, {**facts, LAUNCH: launch_id} if launch_id else facts)

    def series_runs(self) -> list[Path]:
        """List the folders of a series' runs by its `run.json`; empty if there is no series.

        If a process was killed while it put the series aside, `run.json` has been moved already, so
        it is also looked for where it was moved to.
        """
        for folder in (self.path, self._aside_dir):
            try:
                run = parse_json(read_small_file(folder / self.run_path.name))
                names = run_names(run["series"], run["kind"])
            except (OSError, ValueError, KeyError, TypeError):
                continue  # missing or damaged: it names no runs
            return [self.runs_dir / name for name in names]
        return []

    def _put_aside(self) -> None:
        """Move a run's files to `earlier_dir`, whose content is replaced only once all are moved.

        If a process is killed in between, the next one continues, and no file is lost.
        """
        files = self._files()
        for path in files:  # `remove_folder` of a killed process leaves a folder of this name
            shutil.rmtree(removed_name(path), ignore_errors=True)
        existing = [path for path in files if path.exists()]
        if not existing and not self._aside_dir.exists():
            return
        self._aside_dir.mkdir(exist_ok=True)
        for path in existing:
            target = self._aside_dir / path.relative_to(self.path)
            target.parent.mkdir(exist_ok=True)
            move(path, target)
        for directory in (
            self.checkpoints_dir,
            self.runs_dir,
            *map(self.path.joinpath, MODEL_SUBFOLDERS),
        ):
            with contextlib.suppress(OSError):  # it is missing, or has other files
                directory.rmdir()
        if self.earlier_dir.exists() and not _is_complete(self._aside_dir):
            # The run put aside now had failed, and `earlier_dir` still has the run that it was to
            # replace. That one is kept. Of the failed run the model is removed first: alone it
            # would look like a model that no run wrote.
            (self._aside_dir / "model.safetensors").unlink(missing_ok=True)
            shutil.rmtree(self._aside_dir)
        else:
            shutil.rmtree(self.earlier_dir, ignore_errors=True)
            self._aside_dir.rename(self.earlier_dir)

    def remove_checkpoints(self) -> None:
        """Remove the checkpoints, also unfinished ones of a killed run, but no other files."""
        for pattern in ("step-*", ".step-*"):
            for path in self.checkpoints_dir.glob(pattern):
                shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.checkpoints_dir.rmdir()

    def _files(self) -> list[Path]:
        """List the paths that a run's files and folders have, if they exist.

        `run.json` is the first, since a folder without it has no run.
        """
        records = [self.run_path, self.journal_path, self.curves_path, self.failure_path]
        records += [self.repeats_path, self.path / MEMBERS_FOLDER, *self.series_runs()]
        model = [self.path / name for name in MODEL_FILES]
        events = self.path.glob("events.out.tfevents.*")
        card = [self.path / CARD_FILE] if is_own_card(self.path) else []
        checkpoints = self.checkpoints_dir.glob("step-*")
        unfinished = self.checkpoints_dir.glob(".step-*")
        return [*records, *model, *card, *events, *checkpoints, *unfinished]


def run_names(series: Mapping[str, Any], kind: str) -> list[str]:
    """Return the names of the runs of a series of seeds or folds, such as seed-0.

    Args:
        series: the settings of the series, as run.json stores them.
        kind: "seed" or "fold".

    Raises:
        ValueError: there is no such series. In an altered run.json, other kinds could name folders
            outside of the run's own.
    """
    if kind not in ("seed", "fold") or not series[f"{kind}s"] <= LARGEST[f"{kind}s"]:
        raise ValueError(f"no series of runs: {kind}")
    first = series["seed"] if kind == "seed" else 1
    return [f"{kind}-{number}" for number in range(first, first + series[f"{kind}s"])]


def _is_complete(folder: Path) -> bool:
    """Return whether the folder has a model that is not of an unfinished run."""
    if not (folder / "model.safetensors").exists():
        return False
    try:
        run = parse_json(read_small_file(folder / "run.json"))
    except FileNotFoundError:  # no run of bertsmith wrote it
        return True
    except ValueError:
        return False
    return isinstance(run, dict) and "summary" in run

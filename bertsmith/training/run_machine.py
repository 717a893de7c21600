"""The machine of a run in its `run.json`, and warnings if the run is resumed on another machine.

A resumed run computes by the *choices* in its `run.json`, such as the precision, and whether
attention uses plain products or torch's fused kernel. The run may continue on another processor, or
divide its steps otherwise. It then warns, since sums are rounded differently.
"""

import dataclasses
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertsmith._version import __version__
from bertsmith.errors import warn_once
from bertsmith.model.attention_paths import attention_paths, has_all_uses
from bertsmith.system.counts import count_noun
from bertsmith.system.hardware import ComputeChoices, current_choices
from bertsmith.system.json_text import shown_json
from bertsmith.system.matrix_products import Precision
from bertsmith.system.measurements import instructions, processor_name
from bertsmith.training.run_facts import RunFacts, damaged_run

INSTRUCTIONS = "instructions"
"""Key in the machine's facts: the processor and its instructions, which affect rounding."""
PROCESSES = "processes"
"""Key in `run.json`: the number of shares into which a step is divided. Usually each worker process
computes one share; with `--exact` it may compute several."""
COMPUTE_CHOICES = "compute_choices"
"""Key in `run.json`: the choices by which a run computes on a CPU."""
IS_ALLOWED_CHOICE: Mapping[str, Callable[[Any], bool]] = {
    "threads": lambda value: type(value) is int and value >= 1,
    "precision": lambda value: value in ("fp32", "bf16"),
    "float32_route": lambda value: value in ("highest", "medium"),
    "attention": lambda value: isinstance(value, dict) and has_all_uses(value),
}
"""Tests of the values of `compute_choices`, by name. `float32_route` is the precision of fp32
products, and `attention` the way to compute attention for each use and length."""


def note_choices(device: torch.device, precision: Precision) -> dict[str, Any]:
    """Return the entry of `run.json` by which a resumed run computes the same; empty on a GPU."""
    if device.type != "cpu":
        return {}
    return {COMPUTE_CHOICES: asdict(current_choices(precision, attention_paths()))}


def machine_facts(device: torch.device) -> dict[str, Any]:
    """Return the entries of `run.json` on versions and machine."""
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
            INSTRUCTIONS: f"{processor_name()}, {instructions()}",
        },
    }


def warn_other_processor(directory: Path, run: Mapping[str, Any], device: torch.device) -> None:
    """Warn if a run continues on a processor that may round differently."""
    before = run.get("machine", {}).get(INSTRUCTIONS)
    now = f"{processor_name()}, {instructions()}"
    if device.type == "cpu" and isinstance(before, str) and before != now:
        warn_once(
            f"{directory}: this run began on another processor, or with other instructions "
            f"({before}; here {now}), so it equals the uninterrupted run but for rounding."
        )


def warn_other_division(directory: Path, run: Mapping[str, Any], num_shares: int) -> None:
    """Warn if a run continues with another number of shares, as sums then round differently."""
    before = run.get(PROCESSES)
    if isinstance(before, int) and before != num_shares:
        parts_before = count_noun(before, "part")
        warn_once(
            f"{directory}: this run began with {parts_before} of each step, which processes "
            f"compute side by side, and continues with {num_shares}, so it equals the "
            "uninterrupted run but for rounding."
        )


def read_choices(run: RunFacts) -> ComputeChoices | None:
    """Return the choices by which a run computes on a CPU; None on a GPU, where there are none.

    Raises:
        CheckpointError: they are damaged.
    """
    choices = run.get(COMPUTE_CHOICES)
    if choices is None:
        return None
    if not isinstance(choices, dict):
        problem = f"{COMPUTE_CHOICES} is {shown_json(choices)}, and must be an object"
        raise damaged_run(run.path, problem)
    names = {field.name for field in dataclasses.fields(ComputeChoices)}
    for name in sorted(names ^ choices.keys()):
        problem = "missing" if name in names else "not known"
        raise damaged_run(run.path, f"'{COMPUTE_CHOICES}.{name}' is {problem}")
    for name, is_allowed in IS_ALLOWED_CHOICE.items():
        if not is_allowed(choices[name]):
            shown = shown_json(choices[name])
            raise damaged_run(
                run.path, f"'{COMPUTE_CHOICES}.{name}' is {shown}, which is not allowed"
            )
    return ComputeChoices(**choices)

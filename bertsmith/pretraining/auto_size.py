"""Choose the model size for a number of minutes on this machine (`--preset auto --minutes …`).

A larger model learns more from each token, but sees fewer tokens in the same time. Until it has
learned more than token frequencies, it is worse than a small model. So some steps of each preset (a
size, such as tiny) are timed, the smallest first. The largest size that sees the tokens it needs is
taken.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from bertsmith.errors import ConfigError, option
from bertsmith.model.config import BertConfig
from bertsmith.pretraining.micro_batch import rows_in_memory
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.step_timer import timing_steps
from bertsmith.system.torch_modes import drawing_from
from bertsmith.training.machine import Machine
from bertsmith.training.settings import Optimizer

NEEDED_TOKENS = {"tiny": 0.0, "mini": 12e6, "small": 250e6, "medium": 500e6, "base": 2e9}
"""Tokens from which a size should beat the next smaller size in the same time. The number of mini
lies between two measurements on film reviews. After 15.7 M tokens mini predicts 38.3 % of held-out
tokens. In the same time tiny sees 66 M tokens and predicts 39.9 %, but fine-tuned with 2,000 labels
of SST-2 mini is three points better (benchmarks/results/few-labels.md). After 7.8 M tokens of both,
mini predicts 29.3 % and tiny 28.5 %, but a step of mini takes 2.7 times as long
(benchmarks/results/what-limits-a-cpu.md). The numbers of larger sizes are estimates."""

TRIAL_ROWS = 16
"""Most rows of a timed step; the time of a step of the run is computed from them."""
SHARED_SPEED = 0.9
"""Speed of one of several processes, relative to a process alone: they share caches and memory."""


@dataclass(frozen=True)
class SizeChoice:
    """The chosen preset, and the tokens that each tried size would see in `minutes`."""

    preset: str
    minutes: float
    tokens: Mapping[str, float]

    def __str__(self) -> str:
        tried = ", ".join(
            f"{name} {count / 1e6:,.1f} M of {NEEDED_TOKENS[name] / 1e6:,.0f} M tokens needed"
            for name, count in self.tokens.items()
            if name != "tiny"
        )
        return (
            f"size {self.preset}, the largest that sees enough tokens in {self.minutes:g} min "
            f"({tried})"
        )


def choose_preset(
    objective: Pretraining,
    shapes: Mapping[str, BertConfig],
    minutes: float | None,
    machine: Machine,
    optimizer: Optimizer = "adamw",
) -> SizeChoice:
    """Time the presets on rows of `objective`, from the smallest to the first that is too large.

    Args:
        objective: makes the batches and computes the losses of the timed steps.
        shapes: the config of a new model by preset.
        minutes: length of the run.

    Raises:
        ConfigError: the run is not measured in minutes.
    """
    if minutes is None:
        raise ConfigError(
            f"{option('model.preset')}: found 'auto' without a time. Give "
            f"{option('minutes', placeholder='M')}, or name a preset."
        )
    tokens: dict[str, float] = {}
    preset = "tiny"
    for name, needed in NEEDED_TOKENS.items():
        speed = tokens_per_second(objective, shapes[name], machine, optimizer)
        tokens[name] = 60 * minutes * speed
        if tokens[name] < needed:
            break
        preset = name
    return SizeChoice(preset, minutes, tokens)


def tokens_per_second(
    objective: Pretraining,
    config: BertConfig,
    machine: Machine,
    optimizer: Optimizer = "adamw",
) -> float:
    """Estimate the real tokens that all processes train in a second, from steps of one process.

    Starting the other processes would take longer than the steps.
    """
    # At most as many rows as the run computes at once; fewer if long rows would not fit into
    # memory.
    max_rows = rows_in_memory(objective.settings.max_length, config, machine)
    num_rows = min(TRIAL_ROWS, objective.micro_batch_size, max_rows)
    trial = objective.resized(num_rows, objective.eval_rows)
    with drawing_from(trial.seed):
        model = trial.new_model(config).to(machine.device)
    timing = timing_steps(trial, model, machine.precision, num_shares=1, optimizer=optimizer)
    with machine.as_one_process(), timing as timer:
        timed = timer.time(objective.start_steps + 1, warm_up=1)  # the first step with full rows
    step_tokens = timed.tokens * (objective.batch_size / num_rows)
    num_micro_batches = math.ceil(objective.batch_size / objective.micro_batch_size)
    seconds_in_one_process = timed.seconds(step_tokens)
    return speedup(machine, num_micro_batches) * step_tokens / seconds_in_one_process


def speedup(machine: Machine, num_micro_batches: int) -> float:
    """Estimate how many times as fast as one process all processes train, on all ranks.

    `num_micro_batches` is the number in a step: a process without one has no work.
    """
    num_processes = min(machine.num_ranks * machine.processes_here, num_micro_batches)
    return num_processes * (SHARED_SPEED if num_processes > 1 else 1.0)

"""The rank of this process among those that a launcher started: torchrun, SLURM, MPI.

torchrun sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, and so do Ray Train and the
launchers that start processes by torchrun (`accelerate launch`, `fabric run`). In a SkyPilot job,
the command starts torchrun. The variables of `srun` and `mpirun` are mapped to torchrun's.
"""

import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from bertsmith.errors import ConfigError

DEFAULT_PORT = 29500
"""Port on which rank 0 listens if MASTER_PORT is not set; torchrun's default is the same."""

MAX_PORT = 65535

RESTART_COUNT = "TORCHELASTIC_RESTART_COUNT"
"""Variable in which torchrun counts how often it has started all ranks again after a fault."""

RUN_ID = "TORCHELASTIC_RUN_ID"
"""Variable with the `--rdzv-id` of torchrun. If the user gave none, it is a random id for most
launches on one machine, and "none" for all others."""

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
"""Variable with the path of a file for errors of this rank."""

ERROR_FILE_PATTERN = re.compile(r"([^/]+)/attempt_\d+/\d+/error\.json")
"""End of the path that `ERROR_FILE` holds. Group 1 is the random name of a folder that torchrun
makes for each launch, on each machine. A launch keeps the folder for its restarts, whose number is
in the next name."""

LAUNCH = "launch"
"""Key in `run.json`: the id of the launch that wrote the run, if it has one (`read_launch_id`)."""

SILENCE_LIMIT = "BERTSMITH_RANK_SECONDS"
"""Variable in which the user sets the longest time that a rank may be silent, in seconds."""

SILENCE_BOUNDS = (1, 86_400)
"""Least and most seconds of that limit: ranks report once a second, and nobody waits for a rank for
a day."""

LAUNCHER_VARIABLES = (
    {"RANK": "RANK", "WORLD_SIZE": "WORLD_SIZE", "LOCAL_RANK": "LOCAL_RANK"},
    {"RANK": "SLURM_PROCID", "WORLD_SIZE": "SLURM_NTASKS", "LOCAL_RANK": "SLURM_LOCALID"},
    {
        "RANK": "OMPI_COMM_WORLD_RANK",
        "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE",
        "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK",
    },
    {"RANK": "PMI_RANK", "WORLD_SIZE": "PMI_SIZE", "LOCAL_RANK": "MPI_LOCALRANKID"},
)
"""For torchrun, SLURM, Open MPI and Intel MPI: the names of their variables, by torchrun's names.

If several launchers have set their variables, the first launcher in this order counts."""


@dataclass(frozen=True)
class Launch:
    """The place of this process among the processes of a launch.

    `rank` is its number among all `num_ranks`, `local_rank` its number among those on its machine.
    Rank 0 listens on `address` and `port`.
    """

    rank: int
    num_ranks: int
    local_rank: int
    address: str
    port: int
    num_restarts: int = 0
    """Number of times that the launcher has started all ranks again after a fault."""


def read_launch(environment: Mapping[str, str] | None = None) -> Launch | None:
    """Read the rank of this process from the environment.

    The result is None if no launcher started it, or if the world size is 1, as in a job of SLURM
    with one task.

    Raises:
        ConfigError: a variable of the launcher is not a whole number, the rank is not below the
            number of ranks, or MASTER_PORT is no port; or MASTER_ADDR is not set, and SLURM lists
            no nodes either.
    """
    values = os.environ if environment is None else environment
    names = _launcher_variables(values)
    if not names or _number(values, names["WORLD_SIZE"]) == 1:
        return None
    rank, num_ranks = _number(values, names["RANK"]), _number(values, names["WORLD_SIZE"])
    if rank >= num_ranks:
        raise ConfigError(
            f"The environment variable {names['RANK']} is {rank}, and {names['WORLD_SIZE']} is "
            f"{num_ranks}. Ranks are numbered from 0, so {names['RANK']} must be below it. Launch "
            "with torchrun, srun or mpirun, which set both."
        )
    return Launch(
        rank=rank,
        num_ranks=num_ranks,
        local_rank=_number(values, names["LOCAL_RANK"]) if names["LOCAL_RANK"] in values else 0,
        address=_address(values),
        port=_port(values),
        num_restarts=_number(values, RESTART_COUNT) if RESTART_COUNT in values else 0,
    )


def read_launch_id(environment: Mapping[str, str] | None = None) -> str:
    """Read an id of this launch, which torchrun keeps when it starts all ranks again after a fault.

    It is empty without such an id, as with other launchers.
    """
    values = os.environ if environment is None else environment
    if (run_id := values.get(RUN_ID, "none")) != "none":
        return run_id
    error_file = ERROR_FILE_PATTERN.search(values.get(ERROR_FILE, ""))
    return "" if error_file is None else error_file[1]


def is_first_rank(environment: Mapping[str, str] | None = None) -> bool:
    """Return whether this process is rank 0, which prints for all ranks, or the only process."""
    values = os.environ if environment is None else environment
    names = _launcher_variables(values)
    return not names or values[names["WORLD_SIZE"]] == "1" or values[names["RANK"]] == "0"


def read_silence_limit() -> float | None:
    """Read the longest time that a rank may be silent, in seconds; None if the user sets none.

    Raises:
        ConfigError: it is not a number within `SILENCE_BOUNDS`.
    """
    text = os.environ.get(SILENCE_LIMIT)
    if text is None:
        return None
    least, most = SILENCE_BOUNDS
    with contextlib.suppress(ValueError):
        seconds = float(text)
        if least <= seconds <= most:
            return seconds
    raise ConfigError(
        f"The environment variable {SILENCE_LIMIT} is {text!r}. Give it a number of seconds from "
        f"{least} to {most:,}, or unset it."
    )


def _launcher_variables(values: Mapping[str, str]) -> Mapping[str, str]:
    """Return the launcher's entry of `LAUNCHER_VARIABLES`; an empty mapping without a launcher."""
    for names in LAUNCHER_VARIABLES:
        is_launched = names["RANK"] in values and names["WORLD_SIZE"] in values
        # An interactive SLURM shell has a job, but no launched task.
        is_shell = names["RANK"] == "SLURM_PROCID" and "SLURM_STEP_ID" not in values
        if is_launched and not is_shell:
            return names
    return {}


def _address(values: Mapping[str, str]) -> str:
    if address := values.get("MASTER_ADDR"):
        return address
    if nodes := values.get("SLURM_STEP_NODELIST") or values.get("SLURM_JOB_NODELIST"):
        return first_host(nodes)
    raise ConfigError(
        "Several processes were launched, but MASTER_ADDR is not set, so they cannot find each "
        "other. Set it to the host name of the machine of rank 0 (and MASTER_PORT to a free port), "
        "or launch with torchrun, which does that."
    )


def _port(values: Mapping[str, str]) -> int:
    if not values.get("MASTER_PORT"):
        return DEFAULT_PORT
    port = _number(values, "MASTER_PORT")
    if not 1 <= port <= MAX_PORT:
        raise ConfigError(
            f"The environment variable MASTER_PORT is {port}, which is no port. Set it to a free "
            f"one from 1 to {MAX_PORT} on all ranks, such as {DEFAULT_PORT}."
        )
    return port


def first_host(nodes: str) -> str:
    """Return the first host of a SLURM list of nodes.

    >>> first_host("gpu[07-09,12],cpu1"), first_host("node3"), first_host("a1,b[2-4]")
    ('gpu07', 'node3', 'a1')
    >>> first_host("rack[1-2]node[04,06]-ib,cpu1")
    'rack1node04-ib'
    """
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])*", nodes)
    assert first is not None  # it matches any text
    # In brackets are the numbers that differ between hosts, such as 07-09,12.
    return re.sub(r"\[(\w*)[^\]]*\]", r"\1", first[0])


def _number(values: Mapping[str, str], name: str) -> int:
    text = values[name]
    if not text.isdecimal():
        value = repr(text) if text else "empty"
        raise ConfigError(
            f"The environment variable {name} is {value}; a launched process needs a whole number "
            "there. Launch with torchrun, srun or mpirun, which set it, or unset it together with "
            "the launcher's other variables."
        )
    return int(text)

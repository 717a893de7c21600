"""The rank of this process among those that a launcher started: torchrun, SLURM, MPI.

torchrun sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, and so do Ray Train and the
launchers that start processes by torchrun (`accelerate launch`, `fabric run`). In a SkyPilot job,
the command starts torchrun. The variables of `srun` and `mpirun` are mapped to torchrun's.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from bertsmith.errors import ConfigError

DEFAULT_PORT = 29500
"""Port on which rank 0 listens if MASTER_PORT is not set; torchrun's default is the same."""

RESTARTS = "TORCHELASTIC_RESTART_COUNT"
"""Variable in which torchrun counts how often it has started all ranks again after a fault."""

LAUNCHER_VARIABLES = {
    "RANK": ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"),
    "WORLD_SIZE": ("SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"),
    "LOCAL_RANK": ("SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"),
}
"""For each variable of torchrun, those that SLURM, Open MPI and Intel MPI set instead of it."""


@dataclass(frozen=True)
class Launch:
    """This process is `rank` of `num_ranks`, and `local_rank` of those on its machine."""

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
        ConfigError: a variable of the launcher is not a whole number; or MASTER_ADDR is not set,
            and SLURM lists no nodes either.
    """
    values = os.environ if environment is None else environment
    names = _names_of_launcher(values)
    if not names or _number(values, names["WORLD_SIZE"]) == 1:
        return None
    return Launch(
        rank=_number(values, names["RANK"]),
        num_ranks=_number(values, names["WORLD_SIZE"]),
        local_rank=_number(values, names["LOCAL_RANK"]) if names["LOCAL_RANK"] in values else 0,
        address=_address(values),
        port=_number(values, "MASTER_PORT") if values.get("MASTER_PORT") else DEFAULT_PORT,
        num_restarts=_number(values, RESTARTS) if RESTARTS in values else 0,
    )


def is_first_rank(environment: Mapping[str, str] | None = None) -> bool:
    """Return whether this process is the only one or the first, which prints for all."""
    values = os.environ if environment is None else environment
    names = _names_of_launcher(values)
    return not names or values[names["WORLD_SIZE"]] == "1" or values[names["RANK"]] == "0"


def _names_of_launcher(values: Mapping[str, str]) -> dict[str, str]:
    """Return the launcher's variable for each of torchrun's; empty without a launcher."""
    if "RANK" in values and "WORLD_SIZE" in values:
        return {name: name for name in LAUNCHER_VARIABLES}
    for launcher in zip(*LAUNCHER_VARIABLES.values(), strict=True):
        names = dict(zip(LAUNCHER_VARIABLES, launcher, strict=True))
        # An interactive SLURM shell has a job, but no launched task.
        is_launched = names["RANK"] in values and names["WORLD_SIZE"] in values
        if is_launched and ("SLURM_STEP_ID" in values or "SLURM_PROCID" not in launcher):
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


def first_host(nodes: str) -> str:
    """Return the first host of a SLURM list of nodes.

    >>> first_host("gpu[07-09,12],cpu1"), first_host("node3"), first_host("a1,b[2-4]")
    ('gpu07', 'node3', 'a1')
    """
    match = re.match(r"([^,\[]+)(?:\[(\w+))?", nodes)
    return nodes if match is None else match[1] + (match[2] or "")


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

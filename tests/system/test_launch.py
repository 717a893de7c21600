"""The place of a process among those of a launcher, whichever it is."""

import pytest
from refusals import refuses

from bertsmith.errors import ConfigError
from bertsmith.system.launch import (
    SILENCE_LIMIT,
    Launch,
    is_first_rank,
    read_launch,
    read_launch_id,
    read_silence_limit,
)

MASTER = {"MASTER_ADDR": "node1", "MASTER_PORT": "4321"}
LAUNCHERS = {
    "torchrun": {
        "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", **MASTER,
    },
    "srun": {
        "SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "1", "SLURM_STEP_ID": "0",
        **MASTER,
    },
    "mpirun of Open MPI": {
        "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4",
        "OMPI_COMM_WORLD_LOCAL_RANK": "1", **MASTER,
    },
    "mpirun of Intel MPI": {
        "PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", **MASTER,
    },
}  # fmt: skip


@pytest.mark.parametrize("environment", LAUNCHERS.values(), ids=LAUNCHERS)
def test_every_launcher_is_understood(environment):
    assert read_launch(environment) == Launch(3, 4, 1, "node1", 4321)
    assert not is_first_rank(environment)
    first = {name: "0" if value == "3" else value for name, value in environment.items()}
    assert is_first_rank(first)


def test_torchruns_variables_come_before_slurms():
    """torchrun within srun: one task of SLURM on each machine, several processes in each."""
    both = {**LAUNCHERS["srun"], **LAUNCHERS["torchrun"], "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}
    assert read_launch(both) == Launch(3, 4, 1, "node1", 4321)


def test_one_process_is_no_launch():
    assert read_launch({}) is None
    assert read_launch({"RANK": "0", "WORLD_SIZE": "1"}) is None
    # A shell within a job of SLURM has the job's variables, but was not launched as a task.
    shell = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"}
    assert read_launch(shell) is None
    alone = ({}, {"RANK": "1"}, {"RANK": "0", "WORLD_SIZE": "1"}, {**shell, "SLURM_PROCID": "2"})
    assert all(is_first_rank(environment) for environment in alone)


def test_restarts_of_torchrun_have_the_id_of_their_launch():
    def id_of(folder, attempt, run_id="none"):
        path = f"/tmp/torchelastic_x/{folder}/attempt_{attempt}/1/error.json"
        return read_launch_id({"TORCHELASTIC_RUN_ID": run_id, "TORCHELASTIC_ERROR_FILE": path})

    assert id_of("none_a1", 0) == id_of("none_a1", 2) == "none_a1"
    assert id_of("none_b2", 0) != id_of("none_a1", 0)
    # A machine has a folder of its own, so the id that the user gave to all machines comes first.
    assert id_of("job-7_a1", 0, "job-7") == id_of("job-7_b2", 1, "job-7") == "job-7"
    for variables in ({}, {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_ERROR_FILE": ""}):
        assert read_launch_id(variables) == ""


def test_a_rank_beyond_the_number_of_ranks_is_refused():
    with refuses(ConfigError, "SLURM_PROCID is 4", "SLURM_NTASKS is 4"):
        read_launch({**LAUNCHERS["srun"], "SLURM_PROCID": "4"})


def test_slurm_names_the_first_host_and_torchrun_counts_restarts():
    job = {name: value for name, value in LAUNCHERS["srun"].items() if name not in MASTER}
    launch = read_launch({**job, "SLURM_STEP_NODELIST": "gpu[07-09],cpu1"})
    assert launch == Launch(3, 4, 1, "gpu07", 29500)
    launch = read_launch({**job, "SLURM_STEP_NODELIST": "rack[1-2]node[04,06]-ib,cpu1"})
    assert launch is not None and launch.address == "rack1node04-ib"
    again = read_launch({**LAUNCHERS["torchrun"], "TORCHELASTIC_RESTART_COUNT": "2"})
    assert again is not None and again.num_restarts == 2


@pytest.mark.parametrize("change, parts", [
    ({"MASTER_ADDR": ""}, ["MASTER_ADDR is not set", "torchrun"]),
    ({"WORLD_SIZE": "many"}, ["WORLD_SIZE is 'many'", "torchrun"]),
    ({"MASTER_PORT": "http"}, ["MASTER_PORT is 'http'"]),
    ({"MASTER_PORT": "99999"}, ["MASTER_PORT is 99999", "65535"]),
    ({"RANK": ""}, ["RANK is empty"]),
    ({"TORCHELASTIC_RESTART_COUNT": "once"}, ["TORCHELASTIC_RESTART_COUNT is 'once'"]),
], ids=str)  # fmt: skip
def test_what_is_missing_or_no_number_is_told(change, parts):
    with refuses(ConfigError, *parts):
        read_launch({**LAUNCHERS["torchrun"], **change})


def test_the_longest_silence_of_a_rank_is_a_number_of_seconds(monkeypatch):
    monkeypatch.delenv(SILENCE_LIMIT, raising=False)
    assert read_silence_limit() is None
    for text, seconds in (("1", 1.0), ("2.5", 2.5), ("86400", 86400.0)):
        monkeypatch.setenv(SILENCE_LIMIT, text)
        assert read_silence_limit() == seconds
    for text in ("inf", "nan", "0", "-3", "1e-9", "1e300", "86401", "soon", ""):
        monkeypatch.setenv(SILENCE_LIMIT, text)
        with refuses(ConfigError, f"{SILENCE_LIMIT} is {text!r}", "from 1 to 86,400"):
            read_silence_limit()

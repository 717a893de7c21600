"""Start the ranks of a launch as launchers do: with variables of the environment."""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

TESTS = Path(__file__).parent.parent
LIMIT = 600.0


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port


def variables(launcher: str, rank: int, num_ranks: int, port: int) -> dict[str, str]:
    """Return the variables of the environment that a launcher sets for one rank."""
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    if launcher == "srun":
        return common | {
            "SLURM_PROCID": str(rank), "SLURM_NTASKS": str(num_ranks),
            "SLURM_LOCALID": str(rank), "SLURM_STEP_ID": "0",
        }  # fmt: skip
    return common | {"RANK": str(rank), "WORLD_SIZE": str(num_ranks), "LOCAL_RANK": str(rank)}


def start_ranks(
    words: Sequence[object],
    num_ranks: int,
    *,
    launcher: str = "torchrun",
    front: Path | None = None,
    **more: str,
) -> list[subprocess.Popen[str]]:
    """Start `python WORDS` as all ranks; they import from the folder `front` before all others.

    `more` are further variables of the environment.
    """
    port = free_port()
    folders = [*([] if front is None else [str(front)]), str(TESTS / "support"), *sys.path]
    path = os.pathsep.join(filter(None, folders))
    return [
        subprocess.Popen(
            [sys.executable, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ
            | variables(launcher, rank, num_ranks, port)
            | {"PYTHONPATH": path}
            | more,
        )
        for rank in range(num_ranks)
    ]


def end_ranks(
    processes: Sequence[subprocess.Popen[str]], seconds: float = LIMIT
) -> list[tuple[int, str, str]]:
    """Wait for all ranks; return the exit code, standard output and standard error of each."""
    try:
        outputs = [process.communicate(timeout=seconds) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [
        (process.returncode, *output) for process, output in zip(processes, outputs, strict=True)
    ]


def at_start_of(rank: int, code: str, folder: Path) -> Path:
    """Write code that runs when Python starts on one rank; return its folder, for `front`."""
    folder.mkdir()
    body = "".join(f"    {line}\n" for line in code.splitlines())
    (folder / "sitecustomize.py").write_text(
        f"import os\nif os.environ.get('RANK') == '{rank}':\n{body}"
    )
    return folder


def limit_on_files(num_bytes: int) -> str:
    """Return code that limits the size of files; writes then fail as on a full disk."""
    return f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({num_bytes}, {num_bytes}))"

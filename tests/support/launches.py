"""Start the ranks of a launch as launchers do: with variables of the environment.

Importing torch and bertsmith takes two seconds. So ranks are forks of a process that has imported
both, but for those whose start is what a test is about.
"""

import atexit
import multiprocessing
import os
import random
import runpy
import shutil
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

TESTS = Path(__file__).parent.parent
LIMIT = 600.0
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "bertsmith.cli",
        *(f"bertsmith.commands.{name}" for name in ("pretrain", "finetune", "predict", "evaluate",
                                                    "embed", "on_ranks")),
        *(f"bertsmith.commands.settings.{name}" for name in ("pretrain", "finetune", "predict",
                                                             "evaluate", "embed")),
        "small_workers",
    ]
)  # fmt: skip


def free_port() -> int:
    """Return a port that nobody has, below those that systems give to clients (from 32,768 on).

    Until rank 0 listens there, another program's client, or the rank that tries to reach it, could
    otherwise get the port for its own end of a connection.
    """
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as server:
            try:
                server.bind(("127.0.0.1", port))
            except OSError:  # taken
                continue
            return port


def variables(launcher: str, rank: int, num_ranks: int, port: int) -> dict[str, str]:
    """Return the variables of the environment that a launcher sets for one rank."""
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    if launcher == "srun":
        return common | {
            "SLURM_PROCID": str(rank), "SLURM_NTASKS": str(num_ranks),
            "SLURM_LOCALID": str(rank), "SLURM_STEP_ID": "0",
        }  # fmt: skip
    if launcher == "mpirun":
        names = ("RANK", "SIZE", "LOCAL_RANK")
        values = map(str, (rank, num_ranks, rank))
        return common | {
            f"OMPI_COMM_WORLD_{name}": v for name, v in zip(names, values, strict=True)
        }
    return common | {"RANK": str(rank), "WORLD_SIZE": str(num_ranks), "LOCAL_RANK": str(rank)}


class ForkedRank:
    """A rank that has imported everything already, with what `subprocess.Popen` has for tests."""

    def __init__(
        self, words: Sequence[str], environment: Mapping[str, str], front: Path | None
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rank-"))
        outputs = [self._folder / name for name in ("stdout", "stderr")]
        for path in outputs:
            path.touch()
        sys.audit("subprocess.Popen", sys.executable, words, None, None)  # for computing.py
        # Without the script of this process, which the fork would run, too.
        with patch.dict(sys.modules, {"__main__": ModuleType("__main__")}):
            self._process = FORKS.Process(
                target=_be_rank, args=(words, dict(environment), front, outputs)
            )
            self._process.start()

    @property
    def pid(self) -> int:
        pid = self._process.pid
        assert pid is not None
        return pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self.returncode
        if code is None:
            raise subprocess.TimeoutExpired("rank", timeout or 0)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end; return standard output and standard error."""
        self.wait(timeout)
        stdout, stderr = ((self._folder / name).read_text() for name in ("stdout", "stderr"))
        shutil.rmtree(self._folder)
        return stdout, stderr


def _be_rank(
    words: Sequence[str],
    environment: Mapping[str, str],
    front: Path | None,
    outputs: Sequence[Path],
) -> None:
    """Do what `python WORDS` does, in this process, and end it."""
    for number, path in enumerate(outputs, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), number)
    os.environ.clear()
    os.environ.update(environment)
    code: Any = 0
    try:
        sys.argv = [*words[1:]] if words[0] == "-m" else [*words]
        if front is not None:
            runpy.run_path(str(front / "sitecustomize.py"))
        if words[0] == "-m":
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


Rank = subprocess.Popen[str] | ForkedRank


def start_ranks(
    words: Sequence[object],
    num_ranks: int,
    *,
    launcher: str = "torchrun",
    front: Path | None = None,
    is_fresh: bool = False,
    **more: str,
) -> list[Any]:
    """Start `python WORDS` as all ranks; they import from the folder `front` before all others.

    Args:
        is_fresh: whether Python starts anew for each rank.
        more: further variables of the environment.
    """
    port = free_port()
    folders = [*([] if front is None else [str(front)]), str(TESTS / "support"), *sys.path]
    path = os.pathsep.join(filter(None, folders))
    line = [*map(str, words)]
    ranks: list[Rank] = []
    for rank in range(num_ranks):
        environment = os.environ | variables(launcher, rank, num_ranks, port)
        environment |= {"PYTHONPATH": path} | more
        if is_fresh:
            pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            program = [sys.executable, *line]
            ranks.append(subprocess.Popen(program, text=True, env=environment, **pipes))
        else:
            ranks.append(ForkedRank(line, environment, front))
    return ranks


def end_ranks(ranks: Sequence[Any], seconds: float = LIMIT) -> list[tuple[int, str, str]]:
    """Wait for all ranks; return the exit code, standard output and standard error of each."""
    try:
        outputs = [rank.communicate(timeout=seconds) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return [(rank.returncode, *output) for rank, output in zip(ranks, outputs, strict=True)]


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

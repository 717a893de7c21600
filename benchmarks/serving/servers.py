"""The servers that are compared: their packages, how each is started, and the memory of each."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.corpus_scale import children_of

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
THREADS = 2
START_SECONDS = 180
TORCH = ("torch==2.13.0",)
SENTENCE_TRANSFORMERS = (*TORCH, "sentence-transformers==6.2.0", "transformers==5.23.0")

Command = Callable[[str, int, Path], list[str]]
"""(python, port, model folder) -> the command line of a server."""


@dataclass(frozen=True)
class Server:
    """A server, with the packages of its virtual environment; without packages it runs here."""

    name: str
    packages: tuple[str, ...]
    command: Command
    path: str = "/embed"

    def python(self, work: Path) -> str:
        """Return the path of its Python, whose venv is made if it is not there."""
        if not self.packages:
            return sys.executable
        folder = work / "venvs" / self.name
        python, made = folder / "bin" / "python", folder / "made-of.txt"
        wanted = "\n".join(self.packages)
        if not made.exists() or made.read_text(encoding="utf-8") != wanted:
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
            install = [python, "-m", "pip", "install", "--quiet", *self.packages]
            subprocess.run(install, check=True)
            made.write_text(wanted, encoding="utf-8")
        return str(python)


SERVERS = (
    Server(
        "bertsmith",
        (),
        lambda python, port, model: [
            python, "-m", "bertsmith", "serve", str(model), "--port", str(port),
            "--precision", "fp32",
        ],
    ),
    Server(
        "FastAPI",
        (*SENTENCE_TRANSFORMERS, "fastapi==0.165.0", "uvicorn[standard]==0.54.0"),
        lambda python, port, model: [
            python, "-m", "uvicorn", "fastapi_app:app", "--port", str(port),
            "--no-access-log", "--log-level", "warning",
        ],
    ),
    Server(
        "LitServe",
        (*SENTENCE_TRANSFORMERS, "litserve==0.2.19"),
        lambda python, port, model: [python, "litserve_app.py", str(port)],
    ),
    Server(
        "Infinity",
        (
            *TORCH, "infinity-emb[server,torch]==0.0.78", "numpy<2", "sentence-transformers<4",
            "transformers<4.50", "uvicorn<0.33", "typer<0.13", "click<8.2",
        ),
        lambda python, port, model: [
            str(Path(python).with_name("infinity_emb")), "v2", "--model-id", str(model),
            "--engine", "torch", "--device", "cpu", "--port", str(port), "--host", "127.0.0.1",
            "--log-level", "warning",
        ],
        "/embeddings",
    ),
)  # fmt: skip


class RunningServer:
    """A server that answers; its process tree is measured and ended."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, start_seconds: float) -> None:
        self.url = url
        self.start_seconds = start_seconds
        self._process = process

    def memory(self) -> dict[str, float]:
        """Return megabytes now, shared pages divided, and the sum of the processes' peaks."""
        now = peak = 0
        for process_id in children_of(self._process.pid):
            folder = Path(f"/proc/{process_id}")
            now += _kilobytes(folder / "smaps_rollup", "Pss")
            peak += _kilobytes(folder / "status", "VmHWM")
        return {"now": now / 1024, "peak": peak / 1024}

    def cpu_seconds(self) -> float:
        """Return the processor time of its processes so far."""
        ticks = 0
        for process_id in children_of(self._process.pid):
            fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])  # in user and kernel mode
        return ticks / os.sysconf("SC_CLK_TCK")

    def vector(self, text: str) -> list[float]:
        """Return the vector of one text."""
        answer = post(self.url, text)
        vector: list[float] = answer["data"][0]["embedding"] if "data" in answer else answer[0]
        return vector


def post(url: str, text: str) -> Any:
    """Post a text in the form that the path of the URL expects."""
    field = "inputs" if url.endswith("/embed") else "input"
    request = urllib.request.Request(
        url, json.dumps({field: text}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


@contextmanager
def running(server: Server, work: Path, model: Path) -> Iterator[RunningServer]:
    """Start a server on a free port, wait for its first answer, and end it afterwards."""
    python = server.python(work)
    port = free_port()
    threads = str(THREADS)
    environment = {
        **os.environ, "MODEL": str(model), "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads,
        "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "INFINITY_ANONYMOUS_USAGE_STATS": "0",
    }  # fmt: skip
    folder = HERE
    if not server.packages:
        environment["PYTHONPATH"] = str(ROOT)
        folder = work
    log = work / f"{server.name}.log"
    url = f"http://127.0.0.1:{port}{server.path}"
    with log.open("wb") as output:
        began = time.perf_counter()
        process = subprocess.Popen(
            server.command(python, port, model),
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that its workers end with it
        )
        try:
            wait_for_answer(process, url, log)
            yield RunningServer(process, url, time.perf_counter() - began)
        finally:
            end(process)


def wait_for_answer(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Post a text until the server answers it."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            post(url, "Are you there?")
            return
        except (OSError, urllib.error.URLError) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                tail = log.read_text(encoding="utf-8", errors="replace")[-2000:]
                raise SystemExit(f"{url} did not start ({error}): {tail}") from error
        time.sleep(0.05)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a server and its workers."""
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            continue


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


def _kilobytes(file: Path, key: str) -> int:
    match = re.search(rf"^{key}:\s+(\d+) kB", file.read_text(encoding="ascii"), re.MULTILINE)
    return int(match[1]) if match else 0

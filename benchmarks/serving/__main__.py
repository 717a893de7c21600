"""Servers of all-MiniLM-L6-v2 in turns, under the load of `bertsmith.serving.bench`.

python -m benchmarks.serving --work runs/serving             half an hour; makes venvs for the peers
python -m benchmarks.serving --work runs/serving --table     writes benchmarks/serving.md from it
"""

import argparse
import csv
import json
import lzma
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import DATA, ROOT, processor, published_model, table, versions
from benchmarks.serving.servers import SERVERS, THREADS, RunningServer, Server, running
from bertsmith import load
from bertsmith.serving.bench import TABLE_HEADING, measure_server, read_bodies, table_row
from bertsmith.serving.load_generator import OK, LoadResult

PAGE = ROOT / "benchmarks" / "serving.md"
NUM_TEXTS = 2000
NUM_COMPARED = 20
MIN_COSINE = 0.999


def imdb_sentences(count: int) -> list[str]:
    """Draw sentences of 3 to 200 words from IMDB's test reviews."""
    with lzma.open(DATA / "imdb" / "test.csv.xz", "rt", encoding="utf-8", newline="") as file:
        reviews = [row["text"] for row in islice(csv.DictReader(file), 4000)]
    pieces = [re.split(r"(?<=[.!?])\s+", re.sub(r"<br ?/?>", " ", each)) for each in reviews]
    sentences = [piece.strip() for each in pieces for piece in each]
    fitting = [each for each in dict.fromkeys(sentences) if 3 <= len(each.split()) <= 200]
    return random.Random(1).sample(fitting, count)


def lowest_cosine(server: RunningServer, texts: Sequence[str], vectors: np.ndarray) -> float:
    """Return the lowest cosine of a server's vectors of texts with the ones that are expected."""
    theirs = np.array([server.vector(text) for text in texts])
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(theirs, axis=1)
    return float(((vectors * theirs).sum(axis=1) / lengths).min())


@dataclass(frozen=True)
class Task:
    """The requests that every server gets, and how long each load lasts."""

    work: Path
    model: Path
    file: Path
    texts: list[str]
    vectors: np.ndarray
    """Vectors of the first texts by bertsmith in fp32, with which those of a server are
    compared."""
    seconds: float


class LoadLog:
    """Prints each load, and keeps the server's processor time for one answer in it."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._cpu_seconds = server.cpu_seconds()
        self.cpu_ms_per_answer: dict[str, float] = {}

    def add(self, name: str, result: LoadResult) -> None:
        """Take the result of a load that has just ended."""
        before, self._cpu_seconds = self._cpu_seconds, self._server.cpu_seconds()
        cpu_ms = 1000 * (self._cpu_seconds - before) / max(result.statuses.get(OK, 0), 1)
        self.cpu_ms_per_answer[name] = cpu_ms
        print(f"{table_row(name, result)}  {cpu_ms:.1f} ms of CPU each", flush=True)


def measure_turn(server: Server, task: Task, seed: int) -> dict[str, Any]:
    """Start a server, measure it under load, and end it."""
    with running(server, task.work, task.model) as process:
        print(f"\n{server.name}: started in {process.start_seconds:.1f} s", flush=True)
        cosine = lowest_cosine(process, task.texts[: len(task.vectors)], task.vectors)
        if cosine < MIN_COSINE:
            raise SystemExit(f"{server.name}: its vectors differ (cosine {cosine:.4f}).")
        at_rest = process.memory()
        print(TABLE_HEADING)
        log = LoadLog(process)
        bodies = read_bodies(process.url, task.file)
        busy_before, began = busy_seconds(), time.perf_counter()
        result = measure_server(process.url, bodies, task.seconds, seed, on_load=log.add)
        busy = (busy_seconds() - busy_before) / (time.perf_counter() - began)
        memory = process.memory()
        print(
            f"memory {at_rest['now']:.0f} MB at rest, {memory['now']:.0f} MB afterwards, "
            f"peak {memory['peak']:.0f} MB; all programs used {busy:.1f} cores",
            flush=True,
        )
    return {
        "start_seconds": process.start_seconds,
        "cosine": cosine,
        "memory_at_rest": at_rest,
        "memory": memory,
        "cpu_ms_per_answer": log.cpu_ms_per_answer,
        "busy_cores": busy,
        **asdict(result),
    }


def busy_seconds() -> float:
    """Return the processor time of all programs since the computer was started."""
    user, nice, system, *_ = Path("/proc/stat").read_text().split()[1:]
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


def measure_in_process(library: str, python: str, task: Task) -> dict[str, float]:
    """Measure a library without a server, in a process of its own."""
    file = task.work / "texts.json"
    file.write_text(json.dumps(task.texts), encoding="utf-8")
    script = ROOT / "benchmarks" / "serving" / "in_process.py"
    threads = str(THREADS)
    done = subprocess.run(
        [python, script, library, task.model, file],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": threads},
        stdout=subprocess.PIPE,
        check=True,
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure(args: argparse.Namespace) -> None:
    """Measure all servers in rounds, and write the results after every turn."""
    work, model = args.work, published_model()
    work.mkdir(parents=True, exist_ok=True)
    chosen = [server for server in SERVERS if not args.only or server.name in args.only]
    texts = imdb_sentences(NUM_TEXTS)
    file = work / "texts.txt"
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    vectors = load(model, device="cpu", precision="fp32").encode(texts[:NUM_COMPARED])
    task = Task(work, model, file, texts, vectors, args.seconds)
    pythons = {server.name: server.python(work) for server in chosen}
    target = work / "serving.json"
    results: dict[str, Any] = {
        "date": date.today().isoformat(),
        "processor": processor(),
        "versions": versions("torch", "bertsmith"),
        "packages": {server.name: server.packages for server in chosen},
        "seconds": args.seconds,
        "turns": {server.name: [] for server in chosen},
        "in_process": {},
    }
    for number in range(args.rounds):
        order = chosen[number % len(chosen) :] + chosen[: number % len(chosen)]
        for server in order:
            turn = measure_turn(server, task, seed=number + 1)
            results["turns"][server.name].append(turn)
            target.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        libraries = {"bertsmith": sys.executable}
        if "FastAPI" in pythons:
            libraries["sentence-transformers"] = pythons["FastAPI"]
        for library, python in libraries.items():
            alone = measure_in_process(library, python, task)
            print(library, alone, flush=True)
            results["in_process"].setdefault(library, []).append(alone)
        target.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def medians(turns: Sequence[Mapping[str, Any]], *keys: str) -> str:
    """Format the median over turns of a figure, with its range if there are several."""
    values = []
    for turn in turns:
        value: Any = turn
        for key in keys:
            value = value[key] if value else None
        if value is not None:
            values.append(float(value))
    if not values:
        return "none"
    middle = format_figure(statistics.median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({format_figure(min(values))} to {format_figure(max(values))})"


def format_figure(value: float) -> str:
    """Format a figure with about three digits."""
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def page(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the page."""
    turns = results["turns"]
    names = [name for name in turns if turns[name]]
    yield "# Servers of sentence vectors"
    yield ""
    yield (
        f"all-MiniLM-L6-v2 in fp32 over HTTP, one sentence of IMDB per request, on "
        f"{results['processor']}, {THREADS} threads each; {results['date']}. Server and client "
        "share the cores. "
        f"Medians over {max(map(len, turns.values()))} turns, and their range. All programs "
        f"together used {medians([turn for name in names for turn in turns[name]], 'busy_cores')} "
        "cores: where that is more than the server and the client needed, others disturbed them, "
        "and only the processor times and the memory can be compared."
    )
    yield ""
    yield "```"
    yield "python -m benchmarks.serving --work runs/serving"
    yield "```"
    yield ""
    rows = [
        ("requests/s at most", ("saturation",)),
        ("one request alone, p50 ms", ("alone", "latencies", "p50")),
        ("at 50 % of its own most: p50 ms", ("at_50", "latencies", "p50")),
        ("p99 ms", ("at_50", "latencies", "p99")),
        ("at 80 %: p50 ms", ("at_80", "latencies", "p50")),
        ("p99 ms", ("at_80", "latencies", "p99")),
        ("at 200 %: answers/s", ("at_200", "answered_per_second")),
        ("p99 ms of the answers", ("at_200", "latencies", "p99")),
        ("server's CPU ms per answer at 80 %", ("cpu_ms_per_answer", "at 80% of the rate")),
        ("the same at 200 %", ("cpu_ms_per_answer", "at 200% of the rate")),
        ("start to first answer, s", ("start_seconds",)),
        ("memory at rest, MB", ("memory_at_rest", "now")),
        ("peak memory, MB", ("memory", "peak")),
        ("client, of a core at 80 %", ("at_80", "client_share")),
    ]
    body = [[what, *(medians(turns[name], *keys) for name in names)] for what, keys in rows]
    body.insert(8, ["refused or lost at 200 %", *(_others(turns[name]) for name in names)])
    yield from table(["", *names], body)
    yield ""
    lowest = min(turn["cosine"] for name in names for turn in turns[name])
    yield f"All vectors agree with those of bertsmith in fp32: the lowest cosine is {lowest:.5f}."
    yield ""
    yield "Without a server, in one process:"
    yield ""
    libraries = results["in_process"]
    yield from table(
        ["", *libraries],
        [
            ["one text, ms", *(medians(libraries[name], "single_ms") for name in libraries)],
            ["2,000 texts at once, texts/s",
             *(medians(libraries[name], "texts_per_second") for name in libraries)],
        ],
    )  # fmt: skip
    yield ""
    for name in names:
        if results["packages"][name]:
            yield f"- {name}: `{' '.join(results['packages'][name])}`"


def _others(turns: Sequence[Mapping[str, Any]]) -> str:
    shares: dict[str, list[float]] = {}
    for turn in turns:
        overload = turn["at_200"]
        for status, count in overload["statuses"].items():
            if status != "200":
                shares.setdefault(status, []).append(count / overload["num_requests"])
    said = [f"{statistics.mean(each):.0%} {status}" for status, each in shares.items()]
    return ", ".join(said) or "none"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="folder of venvs and results")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each load")
    parser.add_argument("--only", nargs="*", choices=[server.name for server in SERVERS])
    parser.add_argument("--table", action="store_true", help="write the page, measure nothing")
    args = parser.parse_args()
    args.work = args.work.resolve()
    if args.table:
        results = json.loads((args.work / "serving.json").read_text(encoding="utf-8"))
        PAGE.write_text("\n".join(page(results)) + "\n", encoding="utf-8")
    else:
        measure(args)


if __name__ == "__main__":
    main()

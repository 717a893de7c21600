"""Time and memory of `corpus build` and `tokenizer train` on large texts; benchmarks/scale.md.

    python -m benchmarks.corpus_scale speed TEXT --tokenizer FOLDER --other OLDER_TREE
    python -m benchmarks.corpus_scale memory TEXT --tokenizer FOLDER --gigabytes 1.5
    python -m benchmarks.corpus_scale merge TEXT --tokenizer FOLDER

"speed" runs two versions in turns, "memory" takes the peak of each process, and "merge" compares
the merging of a corpus, which one process does, with the encoding, which many do. A tree is a
checkout of the repository.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]


def children_of(process_id: int) -> Iterator[int]:
    """Yield the ids of a process and of all that it started."""
    yield process_id
    for task in Path(f"/proc/{process_id}/task").glob("*/children"):
        for child in task.read_text().split():
            yield from children_of(int(child))


def resident_megabytes(process_id: int) -> int:
    """Return the resident memory of a process in megabytes, without the pages of mapped files.

    Those pages are the system's cache, which it takes back when it needs memory.
    """
    status = Path(f"/proc/{process_id}/status").read_text()
    anonymous = re.search(r"RssAnon:\s+(\d+)", status)
    return int(anonymous[1]) // 1024 if anonymous else 0


class PeakMemory(threading.Thread):
    """The peak of each process of a tree, read several times in a second."""

    def __init__(self, process_id: int) -> None:
        super().__init__(daemon=True)
        self._process_id = process_id
        self._is_done = threading.Event()
        self.megabytes: dict[int, int] = {}

    def run(self) -> None:
        while not self._is_done.wait(0.1):
            try:
                for each in children_of(self._process_id):
                    self.megabytes[each] = max(
                        self.megabytes.get(each, 0), resident_megabytes(each)
                    )
            except OSError:  # it has ended meanwhile
                continue

    def stop(self) -> list[int]:
        """Return the peaks in megabytes, the highest first."""
        self._is_done.set()
        self.join()
        return sorted(self.megabytes.values(), reverse=True)


@dataclass(frozen=True)
class Run:
    """Figures of a command; CPU seconds are those of all its processes."""

    seconds: float
    cpu_seconds: float
    peak_megabytes: list[int]


def run(tree: Path, *words: str | Path) -> Run:
    """Run a command of a source tree."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "bertsmith", "--quiet", *map(str, words)],
        stdout=subprocess.DEVNULL,
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
    )
    memory = PeakMemory(process.pid)
    memory.start()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(map(str, words))}: ended with {status}")
    seconds = time.perf_counter() - began
    return Run(seconds, usage.ru_utime + usage.ru_stime, memory.stop())


def is_same(one: Path, other: Path) -> bool:
    """Return whether two folders hold the same files."""
    return subprocess.run(["diff", "-r", one, other], check=False).returncode == 0


def measure_speed(text: Path, tokenizer: Path, other: Path, turns: int) -> None:
    """Print the time of both trees in turns, and of four shards of a corpus that are merged."""
    runs: dict[str, list[Run]] = {"older": [], "this": [], "4 shards": [], "merge": []}
    with tempfile.TemporaryDirectory(dir=text.parent) as name:
        folder = Path(name)
        build = ["corpus", "build", text, "--tokenizer", tokenizer, "--deduplicate"]
        for _ in range(turns):
            for tree, label in ((other, "older"), (HERE, "this")):
                shutil.rmtree(folder / label, ignore_errors=True)
                runs[label].append(run(tree, *build, "--out", folder / label))
        for number in range(1, 5):
            shard = run(HERE, *build, "--out", folder / "shards", "--shard", f"{number}/4")
            runs["4 shards"].append(shard)
        runs["merge"].append(run(HERE, "corpus", "merge", folder / "shards"))
        for label, each in runs.items():
            seconds = [round(one.seconds, 1) for one in each]
            cpu_seconds = [round(one.cpu_seconds, 1) for one in each]
            print(f"{label:<9} seconds {seconds}, of a CPU {cpu_seconds}")
        print("same bytes:", all(is_same(folder / "older", folder / n) for n in ("this", "shards")))


def enlarge(text: Path, out: Path, num_bytes: int) -> None:
    """Write a text again and again, with other numbers, so that few documents are equal."""
    content = text.read_text(encoding="utf-8")
    number = 0
    with out.open("w", encoding="utf-8") as file:
        while file.tell() < num_bytes:
            number += 1
            file.write(content.replace(" the ", f" the {number}th ") + "\n\n")


def measure_memory(text: Path, tokenizer: Path, gigabytes: float) -> None:
    """Print time and peak memory of each process for a large text."""
    with tempfile.TemporaryDirectory(dir=text.parent) as name:
        folder = Path(name)
        large = folder / "large.txt"
        enlarge(text, large, round(gigabytes * 1e9))
        build = ["corpus", "build", large, "--tokenizer", tokenizer, "--deduplicate"]
        learn = ["tokenizer", "train", large, "--no-compare"]
        for label, words in (
            ("corpus build", [*build, "--out", folder / "corpus"]),
            ("corpus build --shard 1/1", [*build, "--out", folder / "shards", "--shard", "1/1"]),
            ("corpus merge", ["corpus", "merge", folder / "shards"]),
            ("tokenizer train", [*learn, "--out", folder / "tokenizer"]),
        ):
            each = run(HERE, *words)
            print(f"{label:<25} {each.seconds:6.1f} s   peak MB {each.peak_megabytes}", flush=True)
        print(f"{large.stat().st_size / 1e9:.2f} GB; same bytes:",
              is_same(folder / "corpus", folder / "shards"))  # fmt: skip


def measure_merge(text: Path, tokenizer: Path) -> None:
    """Print how much of the encoding's CPU time a merge takes, without the start of Python."""
    with tempfile.TemporaryDirectory(dir=text.parent) as name:
        out = Path(name) / "corpus"
        build = ["corpus", "build", text, "--tokenizer", tokenizer, "--out", out]
        start = run(HERE, "corpus", "merge", "--help").cpu_seconds
        encode = run(HERE, *build, "--shard", "1/1", "--processes", "1").cpu_seconds - start
        merge = run(HERE, "corpus", "merge", out).cpu_seconds - start
        megabytes = text.stat().st_size / 1e6
        print(f"{megabytes:.0f} MB: encoded in {encode:.2f} CPU seconds, merged in {merge:.2f}")
        print(
            f"{megabytes / merge:.0f} MB/s are merged, as many as {encode / merge:.0f} cores encode"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=["speed", "memory", "merge"])
    parser.add_argument("text", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--other", type=Path, help="source tree of an older version")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--gigabytes", type=float, default=1.5)
    args = parser.parse_args()
    text, tokenizer = args.text.resolve(), args.tokenizer.resolve()
    if args.what == "speed" and args.other is None:
        parser.error("speed needs --other, the source tree of an older version")
    if args.what == "speed":
        measure_speed(text, tokenizer, args.other.resolve(), args.turns)
    elif args.what == "merge":
        measure_merge(text, tokenizer)
    else:
        measure_memory(text, tokenizer, args.gigabytes)


if __name__ == "__main__":
    main()

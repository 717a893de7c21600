"""How far it is from a command to what it does: calls in between, and files read again.

Limits only fall.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from tiny_models import save_tiny, write_reviews
from torch.nn import functional as F

import bertsmith
from bertsmith.cli import main
from bertsmith.model.bert import BertModel

PACKAGE = str(Path(bertsmith.__file__).parent)
MAX_FRAMES = 12
MAX_READS = {"config.json": 1, "tokenizer.json": 1}

Lines = dict[str, list[str]]


@pytest.fixture
def lines(tmp_path: Path, corpus_dir: Path) -> Lines:
    """Command lines of one step each, with everything in this process."""
    save_tiny(tmp_path / "model")
    train, held_out = (write_reviews(tmp_path / f"{name}.csv", 8) for name in ("train", "eval"))
    one = ["--steps", "1", "--threads", "1", "--precision", "fp32", "--batch-size", "2"]
    out = ["--out", str(tmp_path / "out")]
    data = ["--train", str(train), "--eval", str(held_out), "--model", str(tmp_path / "model")]
    rows = ["--corpus", str(corpus_dir), "--preset", "tiny", "--eval-rows", "2"]
    return {
        "finetune": ["finetune", "classify", *data, *one, *out],
        "pretrain": ["pretrain", *rows, *one, *out, "--max-length", "16"],
    }


def own_depth(frame: FrameType | None) -> int:
    """Count the package's frames above one, comprehensions left out."""
    depth = 0
    while frame := frame.f_back if frame else None:
        code = frame.f_code
        depth += code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<")
    return depth


def depths_of(code: CodeType, work: Callable[[], object]) -> list[int]:
    """Return how deep in the package each call of a function stands."""
    depths = []

    def probe(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is code:
            depths.append(own_depth(frame))

    sys.setprofile(probe)
    try:
        work()
    finally:
        sys.setprofile(None)
    return depths


@pytest.mark.parametrize(
    ("command", "code"),
    [("finetune", F.cross_entropy.__code__), ("pretrain", BertModel.encode.__code__)],
)
def test_few_frames_stand_between_a_command_and_its_loss(
    lines: Lines, command: str, code: CodeType
) -> None:
    depths = depths_of(code, lambda: main(lines[command]))
    assert depths, "nothing was computed"
    assert max(depths) <= MAX_FRAMES


COUNT_OPENS = """
import sys
def hook(event, args):
    if event == "open" and str(args[0]).startswith(sys.argv[1]):
        print("OPENED", args[0])
sys.addaudithook(hook)
from bertsmith.cli import main
main(sys.argv[2:])
"""


def test_a_model_folder_is_read_once(lines: Lines, tmp_path: Path) -> None:
    model = str(tmp_path / "model")
    done = subprocess.run(
        [sys.executable, "-c", COUNT_OPENS, model, *lines["finetune"]],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": str(Path(PACKAGE).parent)},
    )
    opened = Counter(
        Path(line.removeprefix("OPENED ")).name
        for line in done.stdout.splitlines()
        if line.startswith("OPENED ")
    )
    assert opened["config.json"], "the hook saw nothing"
    assert {name: opened[name] for name in MAX_READS if opened[name] > MAX_READS[name]} == {}

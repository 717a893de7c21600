"""How far it is from a command to what it does: calls in between, and files read again.

Limits only fall.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
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
def lines(tmp_path, corpus_dir):
    """Command lines of one step each, with everything in this process."""
    save_tiny(tmp_path / "model", "classify", labels=("neg", "pos"))
    train, held_out = (write_reviews(tmp_path / f"{name}.csv", 8) for name in ("train", "eval"))
    one = ["--steps", "1", "--threads", "1", "--precision", "fp32", "--batch-size", "2"]
    out = ["--out", str(tmp_path / "out")]
    data = ["--train", str(train), "--eval", str(held_out), "--model", str(tmp_path / "model")]
    rows = ["--corpus", str(corpus_dir), "--preset", "tiny", "--eval-rows", "2"]
    return {
        "finetune": ["finetune", "classify", *data, *one, *out],
        "predict": ["predict", str(tmp_path / "model"), "good"],
        "evaluate": ["evaluate", str(tmp_path / "model"), "--data", str(train)],
        "pretrain": ["pretrain", *rows, *one, *out, "--max-length", "16"],
    }


def own_depth(frame: FrameType | None) -> int:
    """Count the package's frames above one, comprehensions left out."""
    depth = 0
    while frame := frame.f_back if frame else None:
        code = frame.f_code
        depth += code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<")
    return depth


@pytest.mark.parametrize(
    ("command", "code"),
    [("finetune", F.cross_entropy.__code__), ("pretrain", BertModel.encode.__code__)],
)
def test_few_frames_stand_between_a_command_and_its_loss(lines, command, code):
    depths = []

    def probe(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is code:
            depths.append(own_depth(frame))

    sys.setprofile(probe)
    try:
        main(lines[command])
    finally:
        sys.setprofile(None)
    assert depths, "nothing was computed"
    assert max(depths) <= MAX_FRAMES


def test_a_model_folder_is_read_once(lines, tmp_path):
    program = (
        "import json, sys; from bertsmith.cli import main\n"
        "sys.addaudithook(lambda event, args: event == 'open' and print('OPENED', args[0]))\n"
        "for line in json.loads(sys.argv[1]): print('COMMAND'); main(line)"
    )
    commands = json.dumps([lines[name] for name in ("finetune", "predict", "evaluate")])
    done = subprocess.run(
        [sys.executable, "-c", program, commands], capture_output=True, text=True,
        check=True, timeout=120, env=os.environ | {"PYTHONPATH": str(Path(PACKAGE).parent)},
    )  # fmt: skip
    for printed in done.stdout.split("COMMAND\n")[1:]:
        opened = Counter(re.findall(rf"^OPENED {tmp_path}/model/(.*)$", printed, re.MULTILINE))
        assert opened["config.json"], "the hook saw nothing"
        assert {name: opened[name] for name in MAX_READS if opened[name] > MAX_READS[name]} == {}

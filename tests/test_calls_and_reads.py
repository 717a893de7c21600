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
pytestmark = pytest.mark.same_on_all_computers
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
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("sentence1,sentence2,score\na,b,1\nc,d,2\na,d,0\n")
    vectors = ["--train", str(pairs), "--eval", str(pairs), *data[4:], "--out", f"{tmp_path}/v"]
    rows = ["--corpus", str(corpus_dir), "--preset", "tiny", "--eval-rows", "2"]
    return {
        "finetune": ["finetune", "classify", *data, *one, *out],
        "embed": ["finetune", "embed", *vectors, *one],
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
    ("command", "code", "max_frames"),
    [("finetune", F.cross_entropy.__code__, 13), ("pretrain", BertModel.encode.__code__, 12)],
)
def test_few_frames_stand_between_a_command_and_its_loss(lines, command, code, max_frames):
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
    assert max(depths) <= max_frames


def test_a_model_folder_is_read_once_and_nothing_is_downloaded(lines, tmp_path):
    program = (
        "import json, sys; from bertsmith.cli import main\n"
        "told = {'open': 'OPENED', 'socket.connect': 'ASKED', 'socket.getaddrinfo': 'ASKED'}\n"
        "sys.addaudithook(lambda name, args: name in told and print(told[name], args[0]))\n"
        "for line in json.loads(sys.argv[1]): print('COMMAND'); main(line)"
    )
    commands = json.dumps([lines[name] for name in ("finetune", "embed", "predict", "evaluate")])
    done = subprocess.run(
        [sys.executable, "-c", program, commands], capture_output=True, text=True,
        check=True, timeout=600, env=os.environ | {"PYTHONPATH": str(Path(PACKAGE).parent)},
    )  # fmt: skip
    assert "ASKED" not in done.stdout  # nothing is downloaded
    for printed in done.stdout.split("COMMAND\n")[1:]:
        opened = Counter(re.findall(rf"^OPENED {tmp_path}/model/(.*)$", printed, re.MULTILINE))
        assert opened["config.json"], "the hook saw nothing"
        assert {name: opened[name] for name in MAX_READS if opened[name] > MAX_READS[name]} == {}


@pytest.mark.parametrize("command", ["finetune", "embed", "pretrain"])
def test_everything_in_a_runs_config_is_decided(lines, command):
    main(lines[command])
    out = Path(lines[command][lines[command].index("--out") + 1])
    config = json.dumps(json.loads((out / "run.json").read_text())["config"])
    assert "null" not in config and '"auto"' not in config

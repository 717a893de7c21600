"""A comparison of three tiny recipes with a task, as files."""

from pathlib import Path

import numpy as np
from tiny_models import write_csv

FILE = """
steps = 4
seeds = 2

[shared.model]
preset = "tiny"
max_position_embeddings = 32
hidden_dropout_prob = 0.0
[shared.pretraining]
max_length = 16
[shared.training]
batch_size = 4
minutes = 9
[shared.optim]
learning_rate = 1e-3

[recipes."next sentence"]
[recipes."no pairs"]
pretraining.pairs = "none"
[recipes."100/0/0"]
pretraining = { mask_share = 1.0, random_share = 0.0, keep_share = 0.0 }

[tasks.words]
task = "classify"
train = "train.csv"
eval = "eval.csv"
steps = 2
batch_size = 5
"""


def write_examples(path: Path, count: int, seed: int) -> None:
    """Texts of the corpus's words, sorted by what they begin with."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(["bace", "difo"], count)
    rows = [(f"{label} {rng.choice(['guha', 'keli', 'monu'])}.", label) for label in labels]
    write_csv(path, ("text", "label"), *rows)


def write_lab(folder: Path) -> Path:
    """`lab.toml` and the task's files; gives their folder."""
    (folder / "lab.toml").write_text(FILE)
    write_examples(folder / "train.csv", 23, 0)
    write_examples(folder / "eval.csv", 11, 1)
    return folder
